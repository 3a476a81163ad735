"""What becomes of events, worked out minute by minute in the plainest way; nothing of the product decides here.

Times are whole minutes. Everything that is asked of a DAG is asked again at every minute and after everything that happens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from tests.integration.engine.filters import FILTERS
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, DatasetRef, Leaf, NOf, PatternRef
from tidegate.schemas.dag import DagSpec

LATE = 10**9


@dataclass
class Happened:
    """An event as a consumer has it."""

    id: str
    uri: str
    extra: Mapping[str, Any]
    occurred: int
    arrived: int

    @property
    def time(self) -> int:
        return min(self.occurred, self.arrived)


@dataclass
class Consumer:
    """A DAG: what waits for it, what became of the rest, and its runs, each as its minute and its events."""

    spec: DagSpec
    paused: bool = False
    active: int = 0
    waiting: list[Happened] = field(default_factory=list)
    outcomes: dict[str, str] = field(default_factory=dict)
    runs: list[tuple[int, frozenset[str]]] = field(default_factory=list)
    unmet: list[int] = field(default_factory=list)
    last_run: int | None = None
    dealt: int = -LATE
    ticked: int = -LATE

    # What happens ------------------------------------------------------------------------------------------------

    def arrives(self, event: Happened, now: int) -> None:
        if not any(covers(leaf, event.uri) for leaf in leaves(self.spec.schedule)):
            return
        if self.paused and self.spec.on_paused == "drop":
            self.outcomes[event.id] = "the DAG was paused"
        else:
            self.waiting.append(event)
            self.decide(now)

    def changes(self, spec: DagSpec, now: int) -> None:
        if spec.timing.deadline != self.spec.timing.deadline and spec.timing.deadline and spec.timing.deadline.at:
            self.dealt = now
        self.spec = spec
        self.decide(now)

    def minute(self, now: int) -> None:
        """Time alone."""
        self.decide(now)

    # What follows ------------------------------------------------------------------------------------------------

    def decide(self, now: int) -> None:
        last = next(minute for minute in range(now, -1, -1) if minute % 60 % 7 == 0)
        if self.spec.together and not self.paused and self.ticked < last:
            self.ticked = last
            self.tick(last)
        self.sort_out(now)
        if self.paused or self.spec.together:
            return
        while self.has_room and (inputs := self.inputs(now, hurry=self.overdue(now) is not None)) is not None:
            if self.too_soon(now):
                return
            self.run(now, *inputs)
        self.fall_back(now)

    def tick(self, at: int) -> None:
        """Of several that were missed the last one counts, for what had arrived by then."""
        self.sort_out(at)
        later = [event for event in self.waiting if event.arrived > at]
        self.waiting = [event for event in self.waiting if event.arrived <= at]
        inputs = None if self.too_soon(at) else self.inputs(at)
        if inputs is None:
            self.unmet.append(at)
        else:
            self.run(at, *inputs)
        self.waiting += later

    def run(self, now: int, taken: Sequence[Happened], superseded: Sequence[Happened] = ()) -> None:
        self.runs.append((now, frozenset(event.id for event in taken)))
        for event in taken:
            self.outcomes[event.id] = "consumed"
        for event in superseded:
            self.outcomes[event.id] = "a run consumed newer inputs, and it is too old to go with them"
        self.waiting = [event for event in self.waiting if event not in taken and event not in superseded]
        self.active += not self.is_instant
        if self.spec.timing.min_interval_s or self.spec.timing.deadline:
            self.last_run = now

    def fall_back(self, now: int) -> None:
        due = self.overdue(now)
        deadline = self.spec.timing.deadline
        if due is None or deadline is None or self.inputs(now, hurry=True) is not None:
            return
        if deadline.fallback == "run_anyway":
            if not self.has_room or self.too_soon(now):
                return
            self.run(now, list(self.waiting))
        elif deadline.fallback == "skip":
            for event in self.waiting:
                self.outcomes[event.id] = "the other inputs had not arrived by the deadline"
            self.waiting = []
        self.dealt = due

    def sort_out(self, now: int) -> None:
        for event in list(self.waiting):
            covering = [leaf for leaf in leaves(self.spec.schedule) if covers(leaf, event.uri)]
            passing = [leaf for leaf in covering if not leaf.where or FILTERS[leaf.where](event.extra)]
            if not covering:
                self.outcomes[event.id] = "the DAG is no longer scheduled on this dataset"
            elif not passing:
                self.outcomes[event.id] = "no filter of the DAG accepts it"
            elif all(expired(leaf, event, now) for leaf in passing):
                self.outcomes[event.id] = "it expired before a run consumed it"
        self.waiting = [event for event in self.waiting if event.id not in self.outcomes]

    # What is asked -----------------------------------------------------------------------------------------------

    @property
    def is_instant(self) -> bool:
        return self.spec.tasks[0].task_id == "instant"

    @property
    def has_room(self) -> bool:
        return self.active < self.spec.max_active_runs

    def too_soon(self, now: int) -> bool:
        interval = self.spec.timing.min_interval_s
        return interval is not None and self.last_run is not None and now < self.last_run + minutes(interval)

    def overdue(self, now: int) -> int | None:
        deadline = self.spec.timing.deadline
        if deadline is None:
            return None
        if deadline.after_s is not None:
            due = min((event.arrived for event in self.waiting), default=LATE) + minutes(deadline.after_s)
            return due if self.dealt < due <= now else None
        assert deadline.at is not None
        due = next(minute for minute in range(now, now - 1441, -1) if minute % 1440 == deadline.at.hour * 60 + deadline.at.minute)
        if due <= self.dealt or (self.last_run is not None and due - 1440 < self.last_run):
            return None
        return due

    def inputs(self, now: int, *, hurry: bool = False) -> tuple[list[Happened], list[Happened]] | None:
        """What a run would take now, and what it would supersede."""
        if self.spec.mode == "each":
            return (self.waiting[:1], []) if self.waiting else None
        found = self.suffice(self.waiting, now)
        if found is None or self.spec.timing.quiet_for_s is None or hurry:
            return found
        last = max(event.arrived for event in self.waiting)
        if now >= last + minutes(self.spec.timing.quiet_for_s):
            return found
        if self.spec.timing.max_wait_s is None:
            return None
        since = next(
            moment
            for moment in range(min(event.arrived for event in self.waiting), now + 1)
            if self.suffice([event for event in self.waiting if event.arrived <= moment], now) is not None
        )
        return found if now >= since + minutes(self.spec.timing.max_wait_s) else None

    def suffice(self, events: Sequence[Happened], now: int) -> tuple[list[Happened], list[Happened]] | None:
        within = self.spec.timing.within_s
        if within is None:
            return (list(events), []) if self.true(events, now) else None
        for last in sorted({event.time for event in events}, reverse=True):
            inside = [event for event in events if last - minutes(within) <= event.time <= last]
            if self.true(inside, now):
                return inside, [event for event in events if event.time < last - minutes(within)]
        return None

    def true(self, events: Sequence[Happened], now: int) -> bool:
        def said(condition: Condition) -> bool:
            match condition:
                case AllOf(of):
                    return all(said(each) for each in of)
                case AnyOf(of):
                    return any(said(each) for each in of)
                case NOf(k, of):
                    return len([each for each in of if said(each)]) >= k
                case DatasetRef() | PatternRef():
                    return any(is_input(condition, event, now) for event in events)

        assert self.spec.schedule is not None
        return said(self.spec.schedule)


def is_input(leaf: Leaf, event: Happened, now: int) -> bool:
    passes = not leaf.where or FILTERS[leaf.where](event.extra)
    return covers(leaf, event.uri) and passes and not expired(leaf, event, now)


def covers(leaf: Leaf, uri: str) -> bool:
    if isinstance(leaf, DatasetRef):
        return leaf.uri == uri
    star = "**" in leaf.pattern
    return fnmatchcase(uri, leaf.pattern) and (star or uri.count("/") == leaf.pattern.count("/"))


def expired(leaf: Leaf, event: Happened, now: int) -> bool:
    return leaf.expire_after_s is not None and now >= event.time + minutes(leaf.expire_after_s)


def leaves(condition: Condition | None) -> list[Leaf]:
    match condition:
        case None:
            return []
        case DatasetRef() | PatternRef():
            return [condition]
        case AllOf(of) | AnyOf(of) | NOf(_, of):
            return [leaf for each in of for leaf in leaves(each)]


def minutes(seconds: float) -> int:
    assert seconds % 60 == 0
    return int(seconds // 60)
