"""`Dag(schedule=…)`: datasets, time, or both.

A time is a cron expression (`"0 3 * * *"`; five fields, or six with seconds last), a list of cron expressions, a preset
(`"@hourly"`, `"@daily"`, `"@weekly"`, `"@monthly"`, `"@quarterly"`, `"@yearly"`, `"@once"`, `"@continuous"`), a `timedelta`, a
list of datetimes, or the result of `cron(…)` or `every(…)`. `DatasetOrTime` and `DatasetsAndTime` combine datasets with a time.
"""

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec

from tidegate.schemas.authoring.arguments import after_or_at, aware_datetime, limit_seconds, time_zone
from tidegate.schemas.authoring.dataset import Expression, condition_of
from tidegate.schemas.conditions.condition import ANY_TIME, AllOf, AnyOf, Condition, Fallback, InputDeadlineSpec, NOf, Timing
from tidegate.schemas.error import DagError
from tidegate.schemas.timetable import spec as shapes
from tidegate.schemas.timetable.cron import PRESETS
from tidegate.schemas.timetable.spec import Continuous, Cron, Dates, Every, Mode, Once, Timetable

AnyTimetable = TypeVar("AnyTimetable", Cron, Every, Dates, Once, Continuous, Timetable)

FALLBACKS = get_args(Fallback)


class InputDeadline:
    """The time by which a condition over datasets must be met. Exactly one of `after` and `at`.

    `after`: a duration above 0 and up to ten years, from the arrival of the first pending event.
    `at`: a time of day in the DAG's time zone, every day; a run of the condition since the previous day's `at` meets it.
    `fallback`: what happens to the pending events when the condition is not met by then. `run_anyway` (default) creates a run
    of them; `skip` discards them; `alert` calls the DAG's `on_deadline` and keeps them pending.
    Raises DagError otherwise.
    """

    def __init__(self, *, after: timedelta | None = None, at: time | None = None, fallback: Fallback = "run_anyway") -> None:
        where = "InputDeadline"
        after_s = after_or_at(where, after, at)
        if not isinstance(fallback, str) or fallback not in FALLBACKS:
            raise DagError(f"{where}: fallback is one of {', '.join(map(repr, FALLBACKS))}, not {fallback!r:.100}")
        self.spec = InputDeadlineSpec(after_s=after_s, at=at, fallback=fallback)


class Timed:
    """A condition over datasets, and when it creates a run once it is met. Durations are above 0 and up to ten years.

    `datasets`: a dataset, a condition, or a list, which means all of them.
    `within`: the inputs of a run must have happened within this time of each other; older events are discarded as superseded.
    `quiet_for`: debounce; the run waits until no event has arrived for this long, at most `max_wait` after the condition was met.
    `min_interval`: rate limit; the shortest time between the creation of two runs of the condition.
    `expire_after`: a pending event older than this no longer counts; for inputs without an `expire_after` of their own.
    `deadline`: an `InputDeadline`.
    All are None by default: the run is created as soon as the condition is met. Raises DagError for invalid values.
    """

    def __init__(
        self,
        datasets: Expression | Sequence[Expression],
        *,
        within: timedelta | None = None,
        quiet_for: timedelta | None = None,
        max_wait: timedelta | None = None,
        min_interval: timedelta | None = None,
        expire_after: timedelta | None = None,
        deadline: InputDeadline | None = None,
    ) -> None:
        if max_wait is not None and quiet_for is None:
            raise DagError("Timed: max_wait bounds how long a run waits for quiet; write quiet_for=timedelta(…) beside it")
        if deadline is not None and not isinstance(deadline, InputDeadline):
            raise DagError(f"Timed: deadline is an InputDeadline(after=…) or InputDeadline(at=…), not {deadline!r:.100}")
        self.datasets = datasets
        self.expire_after_s = limit_seconds("Timed", "expire_after", expire_after)
        self.timing = Timing(
            within_s=limit_seconds("Timed", "within", within),
            quiet_for_s=limit_seconds("Timed", "quiet_for", quiet_for),
            max_wait_s=limit_seconds("Timed", "max_wait", max_wait),
            min_interval_s=limit_seconds("Timed", "min_interval", min_interval),
            deadline=deadline.spec if deadline else None,
        )


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

    An expression may be a preset such as `"@daily"`.
    `timezone`: a name of the tz database; default UTC.
    `mode="trigger"` (default): a run starts at each tick, and its data interval is the `interval` (default 0) before the tick.
    Its logical date is the start of its data interval; `start_date` and `end_date` of the DAG bound the ticks.
    `mode="interval"`: the period between two ticks is a data interval, and its run starts at the end of the period.
    Raises DagError for an invalid expression, zone or interval.
    """
    return _valid("cron()", Cron(_without_presets(expressions), timezone, mode, _interval("cron()", interval)))


def every(
    *, months: int = 0, timezone: str = "UTC", mode: Mode = "trigger", interval: timedelta = timedelta(), **length: float
) -> Every:
    """A timetable with a tick every `months` calendar months plus a duration in the keywords of timedelta (`days=1`, `hours=6`).

    The distance is from 0.001 s to 100 years. `timezone`, `mode` and `interval` as for `cron`. Raises DagError.
    """
    try:
        seconds = timedelta(**length).total_seconds()
    except OverflowError:
        raise DagError("every(): the time between two runs must be at most 100 years") from None
    except (TypeError, ValueError) as error:
        raise DagError(f"every(): {error}") from None
    return _valid("every()", Every(months, seconds, timezone, mode, _interval("every()", interval)))


def _without_presets(expressions: Sequence[str]) -> tuple[str, ...]:
    """The expressions, each preset replaced by the expression that it names."""
    return tuple(PRESETS.get(given, given) if isinstance(given, str) else given for given in expressions)


def _interval(where: str, interval: object) -> float:
    """The seconds of a data interval."""
    if not isinstance(interval, timedelta):
        raise DagError(f"{where}: interval must be a timedelta like timedelta(hours=1), not {interval!r:.100}")
    return interval.total_seconds()


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
    return bool(parts) and all(isinstance(part, str | timedelta | datetime | Timetable) for part in parts)


def _timetable(where: str, schedule: Any, timezone: str) -> Timetable:
    for part in schedule if isinstance(schedule, list | tuple) else (schedule,):
        if isinstance(part, str) and "://" in part:
            raise DagError(f"{where}: {part!r:.100} is the URI of a dataset; write schedule=Dataset({part!r:.100})")
    if isinstance(schedule, str):
        return _named(where, schedule, timezone)
    if isinstance(schedule, timedelta):
        return _valid(where, Every(seconds=schedule.total_seconds(), timezone=timezone))
    if isinstance(schedule, Timetable):
        return _valid(where, schedule)
    if isinstance(schedule, list | tuple) and schedule and all(isinstance(part, str) for part in schedule):
        return _valid(where, Cron(_without_presets(schedule), timezone))
    if isinstance(schedule, list | tuple) and schedule and all(isinstance(part, datetime) for part in schedule):
        dates = (aware_datetime(where, "the date", part) for part in schedule)
        return _valid(where, Dates(tuple(at for at in dates if at)))
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


def with_expiry(condition: Condition, seconds: float | None) -> Condition:
    """The condition with `expire_after_s` on each input that has none."""
    if seconds is None:
        return condition
    if isinstance(condition, AllOf | AnyOf | NOf):
        return msgspec.structs.replace(condition, of=tuple(with_expiry(operand, seconds) for operand in condition.of))
    return condition if condition.expire_after_s else msgspec.structs.replace(condition, expire_after_s=seconds)


def in_time_zone(where: str, timing: Timing, timezone: str) -> Timing:
    """The timing with its deadline in a time zone. Raises DagError for an unknown zone."""
    if timing.deadline is None or timing.deadline.at is None:
        return timing
    deadline = msgspec.structs.replace(timing.deadline, timezone=time_zone(where, timezone))
    return msgspec.structs.replace(timing, deadline=deadline)
