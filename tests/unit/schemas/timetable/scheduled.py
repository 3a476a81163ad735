"""The dates on schedule, from the ticks of a timetable instead of its plan."""

from datetime import UTC, datetime, timedelta

from tidegate.schemas.timetable.spec import Cron, Dates, Every, Once, Timetable
from tidegate.schemas.timetable.tick import UNBOUND, Bounds
from tidegate.schemas.timetable.tick_times import Grid, ticks_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def on_schedule(timetable: Timetable | None, date: datetime, bounds: Bounds = UNBOUND) -> bool:
    """Whether a run may have this logical date. For a delta, whole periods from the start date (or 1970) may."""
    match timetable:
        case Once():
            return date == bounds.start_date
        case Cron() | Every() | Dates():
            fires = date if isinstance(timetable, Dates) else date + timedelta(seconds=timetable.interval_s)
            ticks = Grid(timetable, bounds.start_date or EPOCH) if isinstance(timetable, Every) else ticks_of(timetable)
            return ticks.until(fires) == fires and fires >= (bounds.start_date or fires) and fires <= (bounds.end_date or fires)
        case _:
            return False
