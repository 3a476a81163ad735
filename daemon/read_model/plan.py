"""The runs that a DAG's timetable plans."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice, takewhile

import msgspec

from tidegate.daemon.read_model.lookup import find_timed_dag
from tidegate.handlers.scheduling.timetable import upcoming_tick
from tidegate.schemas.queries.dag_pages import plans
from tidegate.schemas.queries.db import Db
from tidegate.schemas.time_range import EARLIEST, clamped, in_range, is_date
from tidegate.schemas.timetable.spec import Continuous, Cron, Every, Timetable
from tidegate.schemas.timetable.tick import INSTANT, Tick, runs_after
from tidegate.schemas.timetable.tick_times import Grid
from tidegate.schemas.timetable.wallclock import instant, zone
from tidegate.schemas.view import DagView

DAY = timedelta(days=1)


UTC_CLOCK = "UTC"


class Planned(msgspec.Struct, frozen=True):
    """A planned run, due at `run_after`."""

    logical_date: datetime
    data_interval_start: datetime
    data_interval_end: datetime
    run_after: datetime

    @property
    def is_ordered(self) -> bool:
        """Whether the times follow one another as those of every run that a timetable plans."""
        return self.data_interval_start <= self.logical_date <= self.data_interval_end <= self.run_after

    def at(self, clock: str) -> "Planned":
        """The same times in a time zone."""
        info = zone(clock)
        return Planned(*(moment.astimezone(info) for moment in msgspec.structs.astuple(self)))


class DagClock(msgspec.Struct, frozen=True):
    """The time zone of a DAG's timetable, and whether the runs that it plans start."""

    dag_id: str
    timezone: str
    is_paused: bool
    is_stale: bool


async def read_clock(db: Db, dag_id: str) -> DagClock:
    """Raises RequestError for an unknown DAG, and for one without a timetable."""
    return clock_of(await find_timed_dag(db, dag_id))


def clock_of(dag: DagView) -> DagClock:
    return DagClock(dag.graph.dag_id, timezone_of(dag.graph.timetable), dag.is_paused, dag.is_stale)


def next_run(dag: DagView | None, now: datetime) -> Planned | None:
    """The next run that starts without a request."""
    return None if dag is None or dag.is_inactive else next(map(planned, upcoming_ticks(dag, now)), None)


def planned(tick: Tick) -> Planned:
    return Planned(*tick)


def upcoming_ticks(dag: DagView, now: datetime) -> Iterator[Tick]:
    """The runs in the order in which daemons start them, the due ones first. Only one is known of a continuous timetable."""
    while (tick := upcoming_tick(dag, now)) is not None:
        yield tick
        if dag.graph.is_continuous:
            return
        dag = msgspec.structs.replace(dag, last_tick=tick)


def due_ticks(dag: DagView, now: datetime) -> Iterator[Tick]:
    """The runs that are due; none of a stale DAG, which makes none."""
    return iter(()) if dag.is_stale else takewhile(lambda tick: tick.run_after <= now, upcoming_ticks(dag, now))


def list_planned(
    dag: DagView,
    now: datetime,
    limit: int,
    *,
    due_after: datetime | None = None,
    since: datetime | None = None,
    last: Planned | None = None,
) -> list[Planned]:
    """The next runs, the first `limit` ones after the run `last`.

    `due_after`: instead the runs due later than this time. `since`: instead those with this logical date or a later one.
    """
    if since is not None:
        ticks = ticks_from(dag, since, now, EARLIEST if last is None else last.run_after)
    elif due_after is None:
        ticks = upcoming_ticks(dag if last is None else _advanced(dag, Tick(*msgspec.structs.astuple(last))), now)
    else:
        ticks = ticks_after(dag, due_after if last is None else max(due_after, last.run_after), now)
    return [planned(tick) for tick in islice(ticks, limit)]


def _advanced(dag: DagView, tick: Tick) -> DagView:
    """The DAG after this run and those before it, or as it is where it is further."""
    is_further = dag.last_tick is not None and dag.last_tick.logical_date > tick.logical_date
    return dag if is_further else msgspec.structs.replace(dag, last_tick=tick)


def ticks_after(dag: DagView, after: datetime, now: datetime) -> Iterator[Tick]:
    """The runs due later than `after`, which may be in the past, whether they exist or not."""
    timetable = dag.graph.timetable
    if isinstance(timetable, Every) and (known := dag.last_tick or upcoming_tick(dag, now)):
        after = Grid(timetable, known.run_after).until(clamped(after))
    return runs_after(timetable, after, dag.graph.bounds)


def ticks_from(dag: DagView, start: datetime, now: datetime, due_after: datetime = EARLIEST) -> Iterator[Tick]:
    """The runs with the logical date `start` or a later one, and due later than `due_after`. None of a continuous timetable."""
    timetable = dag.graph.timetable
    if isinstance(timetable, Continuous):
        return iter(())
    before = start
    if isinstance(timetable, Cron | Every) and timetable.mode == "trigger":
        before += timedelta(seconds=timetable.interval_s) - INSTANT
    elif not isinstance(timetable, Cron | Every):
        before -= INSTANT
    return (tick for tick in ticks_after(dag, max(before, due_after), now) if tick.logical_date >= start)


def timezone_of(timetable: Timetable | None) -> str:
    """The time zone of a timetable."""
    return timetable.timezone if isinstance(timetable, Cron | Every) else "UTC"


async def read_zone(db: Db, dag_id: str) -> str:
    """The time zone of a DAG; UTC without a timetable, and of a version that cannot be read."""
    plan = (await plans(db, dag_id)).get(dag_id)
    return timezone_of(plan.graph.timetable) if plan else UTC_CLOCK


def period_of(given: str, clock: str) -> tuple[datetime, datetime]:
    """The start and the end of a day or a time that a user typed, in the zone `clock` unless it names an offset.

    Raises ValueError for other text, and for a time outside the range of times.
    """
    is_day = is_date(given)
    at = datetime.combine(date.fromisoformat(given), time()) if is_day else datetime.fromisoformat(given)
    in_range("the time", at if at.tzinfo else at.replace(tzinfo=UTC))
    start = at.astimezone(UTC) if at.tzinfo else instant(at, clock)
    return start, instant(at + DAY, clock) if is_day else start + INSTANT
