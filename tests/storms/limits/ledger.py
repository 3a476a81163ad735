"""What occupies what, and who waits, after each commit; and how it was a few commits ago."""

from bisect import bisect_left, insort
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tests.storms.limits.journal import Commit, Key, Place, Task, TaskMove

SLOTS = "slots of a pool"
PARALLELISM = "parallelism"
ACTIVE = ("queued", "running")
KEPT = 500
"""How many commits back the ledger can look."""

Amounts = Counter[tuple[Any, ...]]
"""How much is occupied, by what it counts for; and the slots of pools, and which runs are at work."""


NOTHING: Amounts = Counter()


class Waiter(msgspec.Struct, frozen=True, order=True):
    """A task that waits for its slots since commit `seq`."""

    place: Place
    scheduled_at: datetime
    seq: int
    task: Task


def occupied(task: Task) -> Iterator[tuple[tuple[Any, ...], int]]:
    """What an active task counts for, and how much."""
    yield ("slots", task.pool), task.slots
    yield ("everything",), 1
    yield ("run", task.key[0]), 1
    yield ("in dag", task.dag_id, task.task_id), 1
    yield ("in run", task.key[0], task.task_id), 1


def taken(tasks: Iterable[Task]) -> Amounts:
    """What these tasks occupy together."""
    amounts: Amounts = Counter()
    for task in tasks:
        for what, amount in occupied(task):
            amounts[what] += amount
    return amounts


def added(one: Amounts, other: Amounts) -> Amounts:
    """Their sum, with what is negative in it."""
    total = one.copy()
    total.update(other)
    return total


class Ledger:
    """Everything at one moment of the journal."""

    def __init__(self, parallelism: int) -> None:
        self.parallelism = parallelism
        self.now: Amounts = Counter()
        self.seq = 0
        self.queues: dict[str, dict[int, list[Waiter]]] = defaultdict(lambda: defaultdict(list))
        """By pool and run, each in its order."""
        self.oldest: dict[str, list[tuple[datetime, Waiter]]] = defaultdict(list)
        """By pool, who has waited longest first."""
        self.waiters: dict[Key, Waiter] = {}
        self.admitted: Counter[str] = Counter()
        self._recent: deque[tuple[Commit, Amounts]] = deque(maxlen=KEPT)

    def apply(self, commit: Commit) -> None:
        change: Amounts = Counter()
        for move in commit.tasks:
            self._move(move, commit.seq, change)
        for run, state in commit.runs:
            change["at work", run] += (state == "running") - self.now["at work", run] - change["at work", run]
        for pool in commit.pools:
            change["pool", pool.name] += pool.slots - self.now["pool", pool.name]
            self.admitted[pool.name] = pool.admitted
        self.now.update(change)
        self.seq = commit.seq
        self._recent.append((commit, change))

    def _move(self, move: TaskMove, seq: int, change: Amounts) -> None:
        if (gain := (move.state in ACTIVE) - (move.was in ACTIVE)) != 0:
            change.update({what: gain * amount for what, amount in occupied(move.task)})
        if (waiter := self.waiters.pop(move.task.key, None)) is not None:
            self._remove(waiter)
        if move.state == "scheduled":
            waiter = Waiter(move.place, move.scheduled_at, seq, move.task)
            self.waiters[move.task.key] = waiter
            insort(self.queues[move.task.pool][move.task.key[0]], waiter)
            insort(self.oldest[move.task.pool], (move.scheduled_at, waiter))

    def _remove(self, waiter: Waiter) -> None:
        of_pool = self.queues[waiter.task.pool]
        of_run = of_pool[waiter.task.key[0]]
        del of_run[bisect_left(of_run, waiter)]
        if not of_run:
            del of_pool[waiter.task.key[0]]
        oldest = self.oldest[waiter.task.pool]
        del oldest[bisect_left(oldest, (waiter.scheduled_at, waiter))]

    def is_over(self, pool: str) -> bool:
        """Whether more of its slots are taken than it has."""
        return 0 <= self.now["pool", pool] < self.now["slots", pool]

    def back_to(self, seq: int) -> Sequence[Amounts]:
        """What makes the amounts of now those after each commit down to `seq`, beginning with now itself."""
        found: list[Amounts] = [Counter()]
        for commit, change in reversed(self._recent):
            if commit.seq <= seq:
                break
            found.append(found[-1].copy())
            found[-1].subtract(change)
        return found

    def has_brothers_for_all_room(self, waiter: Waiter, seq: int, before: Sequence[Amounts]) -> bool:
        """Whether others of its run, of its rank, came before it in its pool, for all the room of the run at some moment since.

        `before` are the moments since commit `seq`.
        """
        run = waiter.task.key[0]
        since = [move for commit, _ in self._recent if commit.seq > seq for move in commit.admitted]
        gone = [(move.place, move.task) for move in since if move.task.key[0] == run]
        there = [(other.place, other.task) for other in self.queues[waiter.task.pool][run]]
        brothers = sum(
            task.pool == waiter.task.pool and place < waiter.place and place[0] == waiter.place[0] for place, task in gone + there
        )
        return brothers >= waiter.task.run_limit - self.now["run", run] - max(undo["run", run] for undo in before)

    def held_up(self, task: Task, more: Amounts, *, slots: bool = True) -> str | None:
        """What keeps it from its slots when there is `more` than what the ledger has now. None: it fits.

        Without `slots` it fits also when there are too few of them at the moment, if the pool has as many at all.
        """
        run = task.key[0]

        def full(limit: int | None, *what: Any) -> bool:
            return limit is not None and self.now[what] + more[what] >= limit

        if self.now["at work", run] + more["at work", run] < 1:
            return "its run was not at work"
        if full(task.run_limit, "run", run):
            return "max_active_tasks"
        if full(task.per_run, "in run", run, task.task_id):
            return "max_active_tis_per_dagrun"
        if full(task.per_dag, "in dag", task.dag_id, task.task_id):
            return "max_active_tis_per_dag"
        there = self.now["pool", task.pool] + more["pool", task.pool]
        used = self.now["slots", task.pool] + more["slots", task.pool] if slots else 0
        if 0 <= there < used + task.slots:
            return SLOTS
        return PARALLELISM if full(self.parallelism, "everything") else None
