"""What `Dag(schedule=…)` takes: datasets, moments in time, or both.

By time: a cron expression (`"0 3 * * *"`, five fields or six with seconds last), a preset (`"@hourly"`, `"@daily"`, `"@weekly"`,
`"@monthly"`, `"@quarterly"`, `"@yearly"`, `"@once"`, `"@continuous"`), several cron expressions, a `timedelta`, a list of
datetimes, or a `Cron` or `Every` for everything else: data intervals, calendar months. `DatasetOrTime` is either of both,
`DatasetsAndTime` the one if the other. `Timed` says when a condition over datasets counts.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec

from tidegate.schemas.authoring.dataset import Expression, condition_of
from tidegate.schemas.authoring.timing import Timed, expiring
from tidegate.schemas.conditions.condition import ANY_TIME, Condition, Timing
from tidegate.schemas.error import DagError
from tidegate.schemas.timetable import spec as shapes
from tidegate.schemas.timetable.spec import Continuous, Cron, Dates, Every, Mode, Once, Timetable

Shape = TypeVar("Shape", Cron, Every, Dates, Once, Continuous, Timetable)

Datasets = Expression | Sequence[Expression] | Timed
Time = str | Sequence[str] | timedelta | Sequence[datetime] | Timetable


class DatasetOrTime:
    """Runs whenever the datasets have arrived, and besides that by time: each makes runs of its own."""

    def __init__(self, datasets: Datasets, time: Time) -> None:
        self.datasets = datasets
        self.time = time


class DatasetsAndTime:
    """Runs at a time if the datasets have arrived by then. A tick that finds them missing makes no run, which is recorded."""

    def __init__(self, datasets: Datasets, time: Time) -> None:
        self.datasets = datasets
        self.time = time


class Parts(NamedTuple):
    """What a schedule stands for. `together`: the timetable's ticks count only while the condition holds."""

    condition: Condition | None
    timing: Timing
    timetable: Timetable | None
    together: bool


Schedule = Datasets | Time | DatasetOrTime | DatasetsAndTime | None
"""When a DAG runs: when its condition over datasets holds (a list means all of them), by time, or only when asked to."""


def cron(*expressions: str, timezone: str = "UTC", mode: Mode = "trigger", interval: timedelta = timedelta()) -> Cron:
    """Ticks of cron expressions on the wall clock of a zone.

    In mode `trigger` the run's logical date is the tick, and its data interval the time of length `interval` before it. In mode
    `interval` a run starts at the end of the period between two ticks, which is its data interval. Raises DagError.
    """
    return _valid("cron()", Cron(expressions, timezone, mode, interval.total_seconds()))


def every(
    *, months: int = 0, timezone: str = "UTC", mode: Mode = "trigger", interval: timedelta = timedelta(), **length: float
) -> Every:
    """Ticks at a distance: calendar `months` and whatever a timedelta takes (`days=1`, `hours=6`). Raises DagError."""
    return _valid("every()", Every(months, timedelta(**length).total_seconds(), timezone, mode, interval.total_seconds()))


def split(where: str, schedule: object, timezone: str, max_active_runs: int) -> Parts:
    """Raises DagError."""
    together = isinstance(schedule, DatasetsAndTime)
    datasets: object = schedule
    timetable = None
    if isinstance(schedule, DatasetOrTime | DatasetsAndTime):
        datasets, timetable = schedule.datasets, _time(where, schedule.time, timezone)
    elif _is_about_time(schedule):
        datasets, timetable = None, _time(where, schedule, timezone)
    if isinstance(timetable, Continuous) and max_active_runs != 1:
        raise DagError(f"{where}: @continuous starts a run when the one before has ended; write max_active_runs=1")
    condition, timing = _timed(where, datasets)
    return Parts(condition, timing, timetable, together)


def _timed(where: str, datasets: object) -> tuple[Condition | None, Timing]:
    if not isinstance(datasets, Timed):
        return condition_of(where, datasets), ANY_TIME
    condition = condition_of(where, datasets.datasets)
    if condition is None:
        raise DagError(f"{where}: Timed(…) is about datasets, and there are none")
    return expiring(condition, datasets.expire_after_s), datasets.timing


def _is_about_time(schedule: object) -> bool:
    parts = schedule if isinstance(schedule, list | tuple) else (schedule,)
    return bool(parts) and all(isinstance(part, (str, timedelta, datetime, *_SHAPES)) for part in parts)


_SHAPES = (Cron, Every, Dates, Once, Continuous)


def _time(where: str, schedule: Any, timezone: str) -> Timetable:
    for part in schedule if isinstance(schedule, list | tuple) else (schedule,):
        if isinstance(part, str) and "://" in part:
            raise DagError(f"{where}: {part!r:.100} is the URI of a dataset; write schedule=Dataset({part!r:.100})")
    if isinstance(schedule, str):
        return _named(where, schedule, timezone)
    if isinstance(schedule, timedelta):
        return _valid(where, Every(seconds=schedule.total_seconds(), timezone=timezone))
    if isinstance(schedule, _SHAPES):
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


def _valid(where: str, timetable: Shape) -> Shape:
    """The same timetable. Raises DagError where it cannot be."""
    try:
        shapes.validate(msgspec.convert(msgspec.to_builtins(timetable), Timetable))
    except (ValueError, TypeError) as error:
        raise DagError(f"{where}: {error}") from error
    return timetable
