"""`Dag(schedule=…)`: datasets, time, or both.

A time is a cron expression (`"0 3 * * *"`; five fields, or six with seconds last), a list of cron expressions, a preset
(`"@hourly"`, `"@daily"`, `"@weekly"`, `"@monthly"`, `"@quarterly"`, `"@yearly"`, `"@once"`, `"@continuous"`), a `timedelta`, a
list of datetimes, or the result of `cron(…)` or `every(…)`. `DatasetOrTime` and `DatasetsAndTime` combine datasets with a time.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec

from tidegate.schemas.authoring.dataset import Expression, condition_of
from tidegate.schemas.authoring.timing import Timed, with_expiry
from tidegate.schemas.conditions.condition import ANY_TIME, Condition, Timing
from tidegate.schemas.error import DagError
from tidegate.schemas.timetable import spec as shapes
from tidegate.schemas.timetable.spec import Continuous, Cron, Dates, Every, Mode, Once, Timetable

AnyTimetable = TypeVar("AnyTimetable", Cron, Every, Dates, Once, Continuous, Timetable)

Datasets = Expression | Sequence[Expression] | Timed
Time = str | Sequence[str] | timedelta | Sequence[datetime] | Timetable


class DatasetOrTime:
    """Runs when the condition over `datasets` is met, and also by `time`; each creates runs of its own.

    `datasets`: a dataset, a condition, a list of them, or `Timed(…)`. `time`: a time as `Dag(schedule=…)` takes it.
    """

    def __init__(self, datasets: Datasets, time: Time) -> None:
        self.datasets = datasets
        self.time = time


class DatasetsAndTime:
    """Runs by `time`, if the condition over `datasets` is met at the tick. Otherwise the tick is recorded and creates no run.

    Parameters as for `DatasetOrTime`.
    """

    def __init__(self, datasets: Datasets, time: Time) -> None:
        self.datasets = datasets
        self.time = time


class Parts(NamedTuple):
    """The serialised parts of a schedule. `together`: the timetable's ticks create runs only while the condition is met."""

    condition: Condition | None
    timing: Timing
    timetable: Timetable | None
    together: bool


Schedule = Datasets | Time | DatasetOrTime | DatasetsAndTime | None
"""Starts runs when a condition over datasets is met (a list means all of them), by time, or (None) only on request."""


def cron(*expressions: str, timezone: str = "UTC", mode: Mode = "trigger", interval: timedelta = timedelta()) -> Cron:
    """A timetable with the ticks of all `expressions` (five fields, or six with seconds last) on the wall clock of `timezone`.

    `timezone`: a name of the tz database; default UTC.
    `mode="trigger"` (default): a run starts at each tick, and its data interval is the `interval` (default 0) before the tick.
    `mode="interval"`: the period between two ticks is a data interval, and its run starts at the end of the period.
    Raises DagError for an invalid expression, zone or interval.
    """
    return _valid("cron()", Cron(expressions, timezone, mode, interval.total_seconds()))


def every(
    *, months: int = 0, timezone: str = "UTC", mode: Mode = "trigger", interval: timedelta = timedelta(), **length: float
) -> Every:
    """A timetable with a tick every `months` calendar months plus a duration in the keywords of timedelta (`days=1`, `hours=6`).

    The distance is from 0.001 s to 100 years. `timezone`, `mode` and `interval` as for `cron`. Raises DagError.
    """
    return _valid("every()", Every(months, timedelta(**length).total_seconds(), timezone, mode, interval.total_seconds()))


def schedule_parts(where: str, schedule: object, timezone: str, max_active_runs: int) -> Parts:
    """Take `Dag(schedule=…)` apart. Raises DagError."""
    together = isinstance(schedule, DatasetsAndTime)
    datasets: object = schedule
    timetable = None
    if isinstance(schedule, DatasetOrTime | DatasetsAndTime):
        datasets, timetable = schedule.datasets, _timetable(where, schedule.time, timezone)
    elif _is_time(schedule):
        datasets, timetable = None, _timetable(where, schedule, timezone)
    if isinstance(timetable, Continuous) and max_active_runs != 1:
        raise DagError(f"{where}: @continuous starts a run when the one before has ended; write max_active_runs=1")
    condition, timing = _condition_and_timing(where, datasets)
    return Parts(condition, timing, timetable, together)


def _condition_and_timing(where: str, datasets: object) -> tuple[Condition | None, Timing]:
    if not isinstance(datasets, Timed):
        return condition_of(where, datasets), ANY_TIME
    condition = condition_of(where, datasets.datasets)
    if condition is None:
        raise DagError(f"{where}: Timed(…) is about datasets, and there are none")
    return with_expiry(condition, datasets.expire_after_s), datasets.timing


def _is_time(schedule: object) -> bool:
    parts = schedule if isinstance(schedule, list | tuple) else (schedule,)
    return bool(parts) and all(isinstance(part, (str, timedelta, datetime, *_TIMETABLES)) for part in parts)


_TIMETABLES = (Cron, Every, Dates, Once, Continuous)


def _timetable(where: str, schedule: Any, timezone: str) -> Timetable:
    for part in schedule if isinstance(schedule, list | tuple) else (schedule,):
        if isinstance(part, str) and "://" in part:
            raise DagError(f"{where}: {part!r:.100} is the URI of a dataset; write schedule=Dataset({part!r:.100})")
    if isinstance(schedule, str):
        return _named(where, schedule, timezone)
    if isinstance(schedule, timedelta):
        return _valid(where, Every(seconds=schedule.total_seconds(), timezone=timezone))
    if isinstance(schedule, _TIMETABLES):
        return _valid(where, schedule)
    if isinstance(schedule, list | tuple) and schedule and all(isinstance(part, str) for part in schedule):
        return _valid(where, Cron(tuple(shapes.PRESETS.get(part, part) for part in schedule), timezone))
    if isinstance(schedule, list | tuple) and schedule and all(isinstance(part, datetime) for part in schedule):
        return _valid(where, Dates(tuple(schedule)))
    raise DagError(
        f"{where}: {schedule!r:.100} is no time to run at; write a cron expression, a timedelta or a list of datetimes"
    )


def _named(where: str, schedule: str, timezone: str) -> Timetable:
    try:
        return shapes.named(schedule, timezone)
    except ValueError as error:
        raise DagError(f"{where}: {error}") from error


def _valid(where: str, timetable: AnyTimetable) -> AnyTimetable:
    """Return the timetable if it is valid. Raises DagError."""
    try:
        shapes.validate(msgspec.convert(msgspec.to_builtins(timetable), Timetable))
    except (ValueError, TypeError) as error:
        raise DagError(f"{where}: {error}") from error
    return timetable
