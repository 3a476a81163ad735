"""Which waiting tasks get slots: by priority, and every fourth time the task that has waited longest."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import NAMESPACE_OID, UUID, uuid5

from tidegate.handlers.admission.capacity import Capacity
from tidegate.schemas.view import Candidate, LimitOwner, RunView, StarvingTask, WaitingTask

FAIR_EVERY = 4
"""One of this many admissions to a pool with starving tasks is a starving task."""

RUN_BITS = 80
"""The id of an attempt has the number of its run above these bits."""

SPARE = 8
"""Starving tasks that are locked beyond the free slots and beyond each limit: another daemon may have admitted the first ones."""


def select_tasks(capacity: Capacity) -> Iterator[WaitingTask]:
    """The tasks that get slots, in order; each is taken from `capacity`."""
    queue, starving = deque(capacity.state.waiting), deque(capacity.state.starving)
    number = capacity.state.pool.admitted
    while True:
        number += 1
        oldest = capacity.pop_within_limits(starving) if starving and number % FAIR_EVERY == 0 else None
        if oldest is not None and capacity.missing_slots(oldest) is not None:
            capacity.reserve_all()
            return
        task = oldest or capacity.pop_fitting(queue)
        if task is None and capacity.kept:
            # Tasks that a kept share blocks may fill the whole queue, and hide the one that it is kept for.
            task = capacity.pop_fitting(starving)
        if task is None:
            return
        capacity.admit(task)
        yield task


class StarvingCandidates(NamedTuple):
    """The starving tasks to lock. `admissible` of them fit into their limits at the same time."""

    candidates: list[Candidate]
    admissible: int


def select_starving(tasks: Sequence[StarvingTask], most: int) -> StarvingCandidates:
    """The first `most` tasks that fit into their limits together, and up to `SPARE` of each limit that do not fit.

    Without the bound, the instances of a task with a limit of one would fill the list and hide tasks that have waited less.
    """
    left: dict[LimitOwner, int] = {}
    beyond: Counter[LimitOwner] = Counter()
    candidates: list[Candidate] = []
    admissible = 0
    for task in tasks:
        if admissible == most:
            break
        left_after = {owner: left.get(owner, number) - 1 for owner, number in task.limits_left.items()}
        exceeded = [owner for owner, number in left_after.items() if number < 0]
        if any(beyond[owner] == SPARE for owner in exceeded):
            continue
        candidates.append(task.candidate)
        beyond.update(exceeded)
        if not exceeded:
            left |= left_after
            admissible += 1
    return StarvingCandidates(candidates, admissible)


def run_of(submission_id: UUID) -> int:
    """The number of the run of an attempt, with which its id begins."""
    return submission_id.int >> RUN_BITS


def submission_id(installation: str, run: RunView, label: str, try_number: int) -> UUID:
    """The id of an attempt, unique and the same each time it is computed.

    A task that another version of the DAG removes from the run, and a later one adds again, begins anew with the first try.
    It is a UUID of version 8 (RFC 9562, 5.8) that begins with the run's number: rows inserted at one time lie together in the
    index, however many attempts are recorded there. Processes are found by it on their host, where other installations may run.
    """
    name = f"tidegate/{installation}/{run.id}/{run.dag_id}/{run.run_id}/{run.version_id}/{label}/{try_number}"
    digest = uuid5(NAMESPACE_OID, name).int
    return UUID(int=run.id << RUN_BITS | 8 << 76 | digest & ((1 << 76) - 1))
