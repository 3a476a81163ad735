"""Input deadlines: the time by which the condition of a DAG must hold."""

from collections.abc import Iterator, Sequence
from datetime import datetime, time, timedelta

from tidegate.schemas.conditions.condition import InputDeadlineSpec
from tidegate.schemas.time_range import clamped
from tidegate.schemas.timetable.wallclock import instant, local
from tidegate.schemas.view import DagView, Input

DAY = timedelta(days=1)


def input_deadline(dag: DagView, inputs: Sequence[Input], now: datetime) -> datetime | None:
    """The first deadline after `deadline_at`, or of several that have passed the last; None without one."""
    spec = dag.graph.timing.deadline
    if spec is None:
        return None
    if spec.at is not None:
        return _daily_deadline(spec, spec.at, dag, now)
    if not inputs or spec.after_s is None:
        return None
    deadline = min(input_.event.arrived_at for input_ in inputs) + timedelta(seconds=spec.after_s)
    return None if dag.deadline_at is not None and deadline <= dag.deadline_at else deadline


def _daily_deadline(spec: InputDeadlineSpec, at: time, dag: DagView, now: datetime) -> datetime:
    """The first deadline that is not met, or of several that have passed the last.

    A dataset run after the previous day's deadline meets that of the day.
    """
    since = now if dag.deadline_at is None else dag.deadline_at
    deadline = _first_after(at, spec.timezone, since)
    if dag.dataset_run_at is not None and dag.dataset_run_at > _last_until(at, spec.timezone, since):
        deadline = _first_after(at, spec.timezone, _first_from(at, spec.timezone, dag.dataset_run_at))
    return _last_until(at, spec.timezone, now) if deadline <= now else deadline


def _first_after(at: time, timezone: str, moment: datetime) -> datetime:
    """The first instant later than `moment` at which clocks in the time zone show `at`."""
    return next(instant_ for instant_ in _instants(at, timezone, moment) if instant_ > moment)


def _first_from(at: time, timezone: str, moment: datetime) -> datetime:
    return next(instant_ for instant_ in _instants(at, timezone, moment) if instant_ >= moment)


def _last_until(at: time, timezone: str, moment: datetime) -> datetime:
    return max(instant_ for instant_ in _instants(at, timezone, moment) if instant_ <= moment)


def _instants(at: time, timezone: str, moment: datetime) -> Iterator[datetime]:
    """The instants of `at` from two days before to two days after: some time zones have skipped a day."""
    wall = datetime.combine(local(clamped(moment), timezone), at)
    return (instant(wall + DAY * days, timezone) for days in range(-2, 3))
