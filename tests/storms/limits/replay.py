"""Which tasks were passed over, and why: each admission of a storm compared with all tasks that waited then.

An **inversion**: a transaction gave slots of a pool to a task and not to one that waited in the same pool, comes before it in the
order of the queue (heavier; if alike, of an earlier run), and fitted beside all that was given to those before it. Each such pair
of a transaction and a task has one reason. An admission looks at its queue first and takes its locks after that: a task that
became ready or got room after the look could not be seen. A task that did not fit is counted by the limit that held it up; that
is no inversion.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from tests.storms.limits.journal import Commit, Task, TaskMove
from tests.storms.limits.ledger import NOTHING, Amounts, Ledger, Waiter, added, taken

FAIR_EVERY = 4
"""The bound that the pages promise. A judge that took it from the product would move along with it."""

READY_LATER = "became ready after the look"
ROOM_LATER = "got room after the look"
FAIR = "its slots were the turn of one that had waited long"
BROTHERS = "others of its run, which come before it, were looked at for all the room of the run"
UNEXPLAINED = "unexplained"

EXPLAINED = (READY_LATER, ROOM_LATER, FAIR, BROTHERS)
"""The reasons that an inversion may have."""


class Admission(msgspec.Struct, frozen=True):
    """A transaction that gave slots of one pool to `given`, in the order of the queue.

    It looked when commit `looked` was there, at `looked_at`; `before` are the amounts to add to those of the ledger for each
    moment from now back to that one. `turns` is how many fair turns there were.
    """

    seq: int
    at: datetime
    pool: str
    given: Sequence[TaskMove]
    looked: int
    looked_at: datetime
    before: Sequence[Amounts]
    turns: int

    def sentence(self, waiter: Waiter) -> str:
        """Which task it passed over."""
        task, last = waiter.task, self.given[-1]
        waited = (self.at - waiter.scheduled_at).total_seconds()
        return (
            f"{task.dag_id}.{task.task_id} of run {task.key[0]}, which waits for {task.slots} slots of {self.pool} at rank "
            f"{waiter.place[0]} since {waited:.2f} s, was passed over by commit {self.seq}, "
            f"which looked at {self.looked} and admitted {len(self.given)}, the last one at rank {last.place[0]}"
        )


def admission(commit: Commit, ledger: Ledger) -> Admission | None:
    """The commit as one, before the ledger has it; None if it is none."""
    if commit.looked is None or commit.looked_at is None or not commit.admitted:
        return None
    given = sorted(commit.admitted, key=lambda move: move.place)
    pool = given[0].task.pool
    counted = ledger.admitted[pool]
    counts = [change.admitted for change in commit.pools if change.name == pool]
    turns = max(counts, default=counted) // FAIR_EVERY - counted // FAIR_EVERY
    before = ledger.back_to(commit.looked)
    return Admission(commit.seq, commit.at, pool, given, commit.looked, commit.looked_at, before, turns)


class Inversions:
    """`passed_over` counts pairs by reason; `unexplained` describes the pairs without one."""

    def __init__(self, ledger: Ledger, fair_after_s: float) -> None:
        self.passed_over: Counter[str] = Counter()
        self.unexplained: list[str] = []
        self._ledger = ledger
        self._fair_after = timedelta(seconds=fair_after_s)

    def see(self, admission: Admission) -> None:
        given = {move.task.key for move in admission.given}
        for of_run in self._ledger.queues[admission.pool].values():
            ahead = of_run[: bisect_left(of_run, admission.given[-1].place, key=lambda waiter: waiter.place)]
            for waiter in ahead:
                if waiter.task.key not in given:
                    self._pass_over(waiter, admission)

    def _pass_over(self, waiter: Waiter, admission: Admission) -> None:
        reason = self._ledger.held_up(waiter.task, NOTHING) or self._reason(waiter, admission)
        self.passed_over[reason] += 1
        if reason == UNEXPLAINED:
            self.unexplained.append(admission.sentence(waiter))

    def _reason(self, waiter: Waiter, admission: Admission) -> str:
        ledger = self._ledger
        ahead = [move.task for move in admission.given if move.place < waiter.place]
        behind = [move for move in admission.given if move.place > waiter.place]
        for fair in self._fair(waiter.task, behind, admission):
            first = taken([*ahead, *fair])
            if (limit := ledger.held_up(waiter.task, first)) is not None:
                return limit
        if waiter.seq > admission.looked:
            return READY_LATER
        if len(fair) == len(behind):
            return FAIR
        if any(ledger.held_up(waiter.task, added(first, undo)) for undo in admission.before):
            return ROOM_LATER
        return BROTHERS if ledger.has_brothers_for_all_room(waiter, admission.looked, admission.before) else UNEXPLAINED

    def _fair(self, task: Task, moves: Sequence[TaskMove], admission: Admission) -> Sequence[Sequence[Task]]:
        """Those of these that may have had the fair turns: the oldest.

        Who of equally old ones comes first is nowhere written: it may be those with most slots, or those of the run of `task`.
        """
        long_ago = admission.at - self._fair_after
        old = [(move.scheduled_at, move.task) for move in moves if move.scheduled_at < long_ago]
        by_slots = sorted(old, key=lambda facts: (facts[0], -facts[1].slots))
        by_run = sorted(old, key=lambda facts: (facts[0], facts[1].key[0] != task.key[0], facts[1].dag_id != task.dag_id))
        return [[each for _, each in order[: admission.turns]] for order in (by_slots, by_run)]
