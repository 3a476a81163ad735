"""Short constructors of times and runs."""

from datetime import UTC, datetime

from tidegate.schemas.timetable.spec import Cron, Every, Mode, Timetable
from tidegate.schemas.timetable.tick import Bounds, Tick, next_tick

HOUR, DAY = 3600.0, 86400.0


def utc(text: str) -> datetime:
    """`2021-09-07 16:30`, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def fired(text: str) -> Tick:
    """A run at a moment, with a data interval of no length."""
    at = utc(text)
    return Tick(at, at, at, at)


def period(start: str, end: str) -> Tick:
    """A run at the end of its data interval."""
    return Tick(utc(start), utc(start), utc(end), utc(end))


def cron(*expressions: str, zone: str = "UTC", mode: Mode = "trigger", interval_s: float = 0.0) -> Cron:
    return Cron(expressions, zone, mode, interval_s)


def hourly(mode: Mode) -> list[Timetable]:
    """The same schedule, said in both ways."""
    return [cron("0 * * * *", mode=mode), Every(seconds=HOUR, mode=mode)]


def catchup(start: str | None = None, end: str | None = None) -> Bounds:
    return Bounds(start_date=utc(start) if start else None, end_date=utc(end) if end else None, missed="all")


def no_catchup(start: str | None = None, end: str | None = None, *, immediately: bool | None = None) -> Bounds:
    start_date, end_date = utc(start) if start else None, utc(end) if end else None
    return Bounds(start_date=start_date, end_date=end_date, missed="latest", run_immediately=immediately)


def chain(timetable: Timetable, count: int, bounds: Bounds, now: str = "2100-01-01") -> list[Tick]:
    """The first runs of a DAG, each following from the one before."""
    found: list[Tick] = []
    while len(found) < count and (tick := next_tick(timetable, found[-1] if found else None, bounds, utc(now))):
        found.append(tick)
    return found


def fires(timetable: Timetable, count: int, start: str) -> list[datetime]:
    """When the first runs since `start` fire, with catchup."""
    return [tick.run_after for tick in chain(timetable, count, catchup(start))]
