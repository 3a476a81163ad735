"""How long each stage of a run took, from the event that completed its condition to its end."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.schemas.queries.run_origin import ConsumedEvent, Origin, Steps


class Stage(msgspec.Struct, frozen=True):
    """Something that happened to a run. `took_s` is the time since the stage before it, of those that are known.

    Clocks differ: the times of an event and of an attempt are their producer's and their host's, all others the database's. What
    seems to have happened before the stage before it took no time.
    """

    name: str
    at: datetime
    took_s: float | None


def stages(origin: Origin, events: Sequence[ConsumedEvent], steps: Sequence[Steps]) -> tuple[Stage, ...]:
    """Those that the run has come to. Of its tasks, each stage is that of whichever came to it first."""
    known = [(name, at) for name, at in _moments(origin, events, steps) if at is not None]
    before = [None, *(at for _, at in known)]
    return tuple(
        Stage(name, at, None if last is None else max((at - last).total_seconds(), 0.0))
        for (name, at), last in zip(known, before, strict=False)
    )


def completing(events: Sequence[ConsumedEvent]) -> ConsumedEvent | None:
    """The event that arrived last: with it the run could be made."""
    arrived = [event for event in events if event.received_at is not None]
    return arrived[-1] if arrived else None


def _moments(origin: Origin, events: Sequence[ConsumedEvent], steps: Sequence[Steps]) -> Iterator[tuple[str, datetime | None]]:
    if last := completing(events):
        yield "the last event occurred", last.occurred_at
        yield "it arrived", last.received_at
    elif origin.logical_date is not None:
        yield "the run was due", origin.run_after
    yield "the run was created", origin.created_at
    yield "the run started", origin.start_date
    yield "first turn of a task", _first(each.turn_at for each in steps)
    yield "first task admitted", _first(each.admitted_at for each in steps)
    yield "first task submitted", _first(each.submitted_at for each in steps)
    yield "first task started", _first(each.started_at for each in steps)
    yield "first task ended", _first(each.ended_at for each in steps)
    yield "the run ended", origin.end_date


def _first(moments: Iterable[datetime | None]) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)
