"""Bounds of waiting: starving tasks get turns, pools take turns, and no task waits beside free slots."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from tests.storms.limits.journal import Commit
from tests.storms.limits.ledger import NOTHING, PARALLELISM, SLOTS, Amounts, Ledger, Waiter, added, taken
from tests.storms.limits.replay import FAIR_EVERY, Admission

Span = tuple[datetime, datetime]

LOOK_EVERY_S = 0.25
"""The time between two checks whether a task waits beside free slots."""

STARTED_S = 10.0
"""A daemon that has been up for so long is at work, also on a busy machine, where a start takes seconds."""

OTHERS = 4
"""How many turns each other pool may have before a pool has one: two daemons, each of which may have been started again.

A process begins its round anew, so each further start allows one more.
"""

STARTS = 2
"""The starts that `OTHERS` allows for."""

AT_WORK_S = 0.25
"""A daemon that has just moved a task is at work for at least so long, however young it is."""


class Turns:
    """Of any four tasks admitted to a pool, one has waited at least as long as every starving task that is eligible.

    So a task that has waited long has its slots after at most four admissions for each that has waited longer, and four more.
    """

    def __init__(self, ledger: Ledger, fair_after_s: float) -> None:
        self.unfair: list[str] = []
        self._ledger = ledger
        self._fair_after = timedelta(seconds=fair_after_s)
        self._in_a_row: Counter[str] = Counter()

    def see(self, admission: Admission) -> None:
        passed = self._passed(admission)
        if passed is None:
            self._in_a_row[admission.pool] = 0
            return
        old = sum(move.scheduled_at <= passed.scheduled_at for move in admission.given)
        in_a_row = max(self._in_a_row[admission.pool] + len(admission.given) - FAIR_EVERY * old, 0)
        self._in_a_row[admission.pool] = in_a_row
        if in_a_row >= FAIR_EVERY:
            self.unfair.append(f"{in_a_row} others in a row: {admission.sentence(passed)}")

    def _passed(self, admission: Admission) -> Waiter | None:
        """The longest waiting task of those held up by slots alone."""
        given = {move.task.key for move in admission.given}
        after = taken(move.task for move in admission.given)
        for scheduled_at, waiter in self._ledger.oldest[admission.pool]:
            if scheduled_at >= admission.looked_at - self._fair_after:
                return None
            if waiter.seq <= admission.looked and waiter.task.key not in given and self._may_go(waiter, admission, after):
                return waiter
        return None

    def _may_go(self, waiter: Waiter, admission: Admission, after: Amounts) -> bool:
        held_up = self._ledger.held_up
        return not held_up(waiter.task, NOTHING, slots=False) and not any(
            held_up(waiter.task, added(after, undo), slots=False) for undo in admission.before
        )


class PoolTurns:
    """A pool has its turn after the others had theirs, while whom it would admit lacks nothing but room in the installation."""

    def __init__(self, ledger: Ledger, starts: Iterable[datetime]) -> None:
        self.longest: Counter[str] = Counter()
        """By pool, how many times others were given something while it was not."""
        self.unfair: list[str] = []
        self._ledger = ledger
        self._starts = sorted(starts)
        self._others: Counter[str] = Counter()
        self._since: dict[str, datetime] = {}

    def see(self, admission: Admission) -> None:
        given = taken(move.task for move in admission.given)
        for pool in self._ledger.queues:
            if pool == admission.pool or not self._waits(pool, given):
                self._others[pool] = 0
                self._since[pool] = admission.at
            else:
                self._others[pool] += 1
                self.longest[pool] = max(self.longest[pool], self._others[pool])
                self._judge(pool, admission.at)

    def _judge(self, pool: str, at: datetime) -> None:
        others, allowed = self._others[pool], self._allowed(self._since.setdefault(pool, at), at)
        if others > allowed:
            self.unfair.append(f"{pool} waited for room while other pools were given something {others} times, and not {allowed}")

    def _allowed(self, since: datetime, until: datetime) -> int:
        """A process that was started a little earlier may begin its round meanwhile."""
        begun = since - timedelta(seconds=STARTED_S)
        starts = bisect_right(self._starts, until) - bisect_left(self._starts, begun)
        return (OTHERS + max(starts - STARTS, 0)) * (len(self._ledger.queues) - 1)

    def _waits(self, pool: str, given: Amounts) -> bool:
        """Slots that are reserved for the longest waiting task go to no other."""
        reasons = (self._ledger.held_up(waiter.task, given) for _, waiter in self._ledger.oldest[pool])
        return next((reason for reason in reasons if reason in (None, SLOTS, PARALLELISM)), None) == PARALLELISM


class Idle:
    """The longest time that a fitting task waited while nothing was admitted to the pool; seconds, by pool.

    Only time in which a daemon was at work counts: both may be down together, for as long as the machine takes to start one.
    `lives` are those of the processes of all daemons.
    """

    def __init__(self, ledger: Ledger, lives: Iterable[Span]) -> None:
        self.longest_s: dict[str, float] = defaultdict(float)
        self._ledger = ledger
        self._at_work = at_work(lives)
        self._worked_s = 0.0
        self._seen_at: datetime | None = None
        self._since_s: dict[str, float] = {}
        self._look_at_s = 0.0

    def see(self, commit: Commit) -> None:
        """After the ledger has it."""
        self._worked_s += self._work(commit)
        self._seen_at = commit.at
        for pool in {move.task.pool for move in commit.admitted}:
            self._since_s.pop(pool, None)
        if self._worked_s < self._look_at_s:
            return
        self._look_at_s = self._worked_s + LOOK_EVERY_S
        for pool, waiters in self._ledger.oldest.items():
            if all(self._ledger.held_up(waiter.task, NOTHING) for _, waiter in waiters):
                self._since_s.pop(pool, None)
            since_s = self._since_s.setdefault(pool, self._worked_s)
            self.longest_s[pool] = max(self.longest_s[pool], self._worked_s - since_s)

    def _work(self, commit: Commit) -> float:
        """The part of the time since the last commit in which a daemon was at work. Only daemons move tasks."""
        begin = self._seen_at or commit.at
        certain_s = sum(overlap_s((begin, commit.at), span) for span in self._at_work)
        rest_s = (commit.at - begin).total_seconds() - certain_s
        return certain_s + (min(rest_s, AT_WORK_S) if commit.tasks else 0.0)


def at_work(lives: Iterable[Span]) -> list[Span]:
    """When at least one daemon was up and had been so for a while. The spans do not overlap."""
    merged: list[Span] = []
    for begin, end in sorted((begin + timedelta(seconds=STARTED_S), end) for begin, end in lives):
        if end <= begin:
            continue
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def overlap_s(one: Span, other: Span) -> float:
    return max((min(one[1], other[1]) - max(one[0], other[0])).total_seconds(), 0.0)
