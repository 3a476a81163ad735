"""The duration of each stage of a run, from the event that completed its condition to its end."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.schemas.queries.run_pages import ConsumedEventRow, Origin, Steps


class Stage(msgspec.Struct, frozen=True):
    """A stage of a run. `took_s` is the time since the previous known stage.

    Clocks differ: the times of events are their producers', those of attempts their hosts', all others the database's. A stage
    that seems earlier than the previous one took no time.
    """

    name: str
    at: datetime
    took_s: float | None


def stages(origin: Origin, events: Sequence[ConsumedEventRow], steps: Sequence[Steps]) -> tuple[Stage, ...]:
    """The stages that the run has reached. A stage of tasks is that of the first task that reached it.

    Of a run that was cleared, attempts from before its new start are left out.
    """
    own = [attempt for attempt in steps if origin.start_date is not None and attempt.admitted_at >= origin.start_date]
    starts = "the run started" if len(own) == len(steps) else "the run started again"
    known = [(name, at) for name, at in _moments(origin, events, own, starts) if at is not None]
    before = [None, *(at for _, at in known)]
    return tuple(
        Stage(name, at, None if last is None else max((at - last).total_seconds(), 0.0))
        for (name, at), last in zip(known, before, strict=False)
    )


def completing(events: Sequence[ConsumedEventRow]) -> ConsumedEventRow | None:
    """The event that arrived last, which completed the condition."""
    arrived = [event for event in events if event.received_at is not None]
    return arrived[-1] if arrived else None


def _moments(
    origin: Origin, events: Sequence[ConsumedEventRow], steps: Sequence[Steps], starts: str
) -> Iterator[tuple[str, datetime | None]]:
    if last := completing(events):
        yield "the last event occurred", last.occurred_at
        yield "it arrived", last.received_at
    elif origin.logical_date is not None:
        yield "the run was due", origin.run_after
    yield "the run was created", origin.created_at
    yield starts, origin.start_date
    yield "first task ready", _first(attempt.turn_at for attempt in steps)
    yield "first task admitted", _first(attempt.admitted_at for attempt in steps)
    yield "first task submitted", _first(attempt.submitted_at for attempt in steps)
    yield "first task started", _first(attempt.started_at for attempt in steps)
    yield "first task ended", _first(attempt.ended_at for attempt in steps)
    yield "the run ended", origin.end_date


def _first(moments: Iterable[datetime | None]) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)
