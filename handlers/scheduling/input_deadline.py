"""By when a DAG's condition is to hold, and what is to be looked at before."""

from collections.abc import Iterator, Sequence
from datetime import datetime, time, timedelta

from tidegate.handlers.scheduling.inputs import expires_at, part_ends
from tidegate.schemas.conditions.condition import InputDeadlineSpec
from tidegate.schemas.timetable.moment import held
from tidegate.schemas.timetable.wallclock import instant, local
from tidegate.schemas.view import DagView, Input

DAY = timedelta(days=1)


def deadline_of(dag: DagView, found: Sequence[Input], now: datetime) -> datetime | None:
    """The first deadline that nobody has dealt with; of several that have passed, the last one. None: there is none."""
    spec = dag.graph.timing.deadline
    if spec is None:
        return None
    if spec.at is not None:
        return _daily(spec, spec.at, dag, now)
    if not found or spec.after_s is None:
        return None
    due = min(each.event.arrived_at for each in found) + timedelta(seconds=spec.after_s)
    return None if dag.deadline_at is not None and due <= dag.deadline_at else due


def ends(dag: DagView, found: Sequence[Input]) -> Iterator[datetime]:
    """When inputs expire. With a deadline also when they do for a part of the condition: one that held may miss it then."""
    if dag.graph.timing.deadline is not None:
        return (end for each in found for end in part_ends(each))
    return (end for each in found if (end := expires_at(each)) is not None)


def _daily(spec: InputDeadlineSpec, at: time, dag: DagView, now: datetime) -> datetime:
    """A day's deadline is met by any run since the one of the day before."""
    since = now if dag.deadline_at is None else dag.deadline_at
    due = _following(at, spec.timezone, since)
    if dag.dataset_run_at is not None and dag.dataset_run_at > _last(at, spec.timezone, since):
        due = _following(at, spec.timezone, _reaching(at, spec.timezone, dag.dataset_run_at))
    while due <= now and (after := _following(at, spec.timezone, due)) <= now:
        due = after
    return due


def _following(at: time, timezone: str, moment: datetime) -> datetime:
    """The first time, later than the moment, that the clocks show `at`."""
    return next(each for each in _days(at, timezone, moment) if each > moment)


def _reaching(at: time, timezone: str, moment: datetime) -> datetime:
    return next(each for each in _days(at, timezone, moment) if each >= moment)


def _last(at: time, timezone: str, moment: datetime) -> datetime:
    """The last time, up to the moment, that the clocks showed `at`."""
    return max(each for each in _days(at, timezone, moment) if each <= moment)


def _days(at: time, timezone: str, moment: datetime) -> Iterator[datetime]:
    """From two days before to two days after: there are zones that have left out a day."""
    wall = local(held(moment), timezone).replace(hour=0, minute=0, second=0, microsecond=0)
    wall += timedelta(hours=at.hour, minutes=at.minute, seconds=at.second, microseconds=at.microsecond)
    return (instant(wall + DAY * days, timezone) for days in range(-2, 3))
