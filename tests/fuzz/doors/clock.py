"""Timetables, and timings of conditions, at the edges of the calendar: each decision ends, makes progress, and comes to rest."""

import time as clock
from collections.abc import Sequence
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.fuzz.doors.door import Door
from tests.fuzz.doors.record import check_storable
from tests.fuzz.values import mostly
from tests.shapes import dag_view, graph
from tests.unit.handlers import task_facts
from tidegate.handlers.explain.dag import DagFacts, explain_dag
from tidegate.handlers.scheduling.next_runs import schedule_next_runs
from tidegate.schemas.conditions.condition import AllOf, Condition, DatasetRef, InputDeadlineSpec, Leaf, NOf, PatternRef, Timing
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import ConsumeEvents, DiscardEvents, UpdateSchedule
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import RunType
from tidegate.schemas.time_range import EARLIEST, LATEST
from tidegate.schemas.timetable.spec import Continuous, Cron, Dates, Every, Mode, Once, Timetable, validate
from tidegate.schemas.timetable.tick import Bounds, Tick, manual_interval, next_tick
from tidegate.schemas.view import DagView, PendingEvent

ROUNDS = 10
"""The most rounds until a decision that wakes the DAG at once comes to rest, where the limit of active runs is one or two."""
WORK_S = 2.0
"""Of processor time, for one decision: a hundred times what the slowest takes."""
LENGTHS = timedelta(days=3 * 101 * 366)

ZONES = (
    "UTC",
    "Europe/Zurich",
    "America/St_Johns",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Antarctica/Troll",
    "Australia/Lord_Howe",
)
DAYS = [
    datetime.fromisoformat(f"{day}Z")
    for day in (
        *("2026-03-29T01:00", "2026-10-25T01:00", "2011-12-30T10:00", "2024-02-29T00:00", "2100-02-28T00:00", "1900-01-01T00:00"),
        *("2200-01-01T00:00", "2038-01-19T03:14", "1970-01-01T00:00", "2026-04-05T15:00", "2026-05-01T12:00", "1940-06-14T23:00"),
    )
]
SHIFTS = st.sampled_from([0.0, 1e-6, -1e-6, 1.0, -1.0, 60.0, -60.0, 3599.0, 3600.0, -3600.0, 86_400.0, 1e7, -1e7]) | st.floats(
    -4e9, 4e9, allow_nan=False
)
MOMENTS: SearchStrategy[datetime] = st.builds(
    lambda day, by: min(max(day + timedelta(seconds=by), EARLIEST), LATEST), st.sampled_from(DAYS), SHIFTS
)
DURATIONS = st.sampled_from([0.001, 1.0, 59.0, 60.0, 3600.0, 86_399.0, 86_400.0, 2_678_400.0, 315_360_000.0])
FIELDS = {
    "minute": st.sampled_from(["*", "0", "30", "59", "*/7", "0-30/10", "1,2,3"]),
    "hour": st.sampled_from(["*", "0", "2", "23", "*/5", "1-3"]),
    "day": st.sampled_from(["*", "1", "29", "31", "L", "*/31", "28-31"]),
    "month": st.sampled_from(["*", "2", "12", "*/3", "feb", "3,10"]),
    "weekday": st.sampled_from(["*", "0", "7", "mon-fri", "sun"]),
}
EXPRESSIONS = st.tuples(*FIELDS.values()).map(" ".join) | st.sampled_from(["* * * * * *", "*/13 * * * * 59", "0 0 29 2 *"])
MODES: SearchStrategy[Mode] = st.sampled_from(["trigger", "interval"])


@st.composite
def timetables(draw: DrawFn) -> Timetable:
    """A valid one, as a DAG file's."""
    kind, mode, zone = draw(st.integers(0, 9)), draw(MODES), draw(st.sampled_from(ZONES))
    interval_s = draw(mostly(st.just(0.0), st.sampled_from([1.0, 86_400.0, 3.1e9]), 4)) if mode == "trigger" else 0.0
    if kind < 5:
        return Cron(tuple(draw(st.lists(EXPRESSIONS, min_size=1, max_size=2))), zone, mode, interval_s)
    if kind < 8:
        months = draw(st.sampled_from([0, 0, 1, 2, 12, 1100]))
        return Every(
            months, draw(DURATIONS | st.just(3e9)) if not months else draw(st.sampled_from([0.0, 1.0])), zone, mode, interval_s
        )
    return draw(
        st.lists(MOMENTS, min_size=1, max_size=4).map(lambda dates: Dates(tuple(dates))) | st.just(Once()) | st.just(Continuous())
    )


def is_valid(timetable: Timetable) -> bool:
    try:
        validate(timetable)
    except ValueError:
        return False
    return True


BOUNDS = st.fixed_dictionaries(
    {"missed": st.sampled_from(["skip", "latest", "all"]), "run_immediately": st.sampled_from([None, True, False])},
    optional={"start_date": MOMENTS, "end_date": MOMENTS},
)
LEAVES: SearchStrategy[Leaf] = st.sampled_from(
    [DatasetRef("s://a"), DatasetRef("s://b", expire_after_s=60), PatternRef("s://*", "n > 1", 315_360_000.0)]
)
CONDITIONS: SearchStrategy[Condition] = (
    LEAVES
    | st.lists(LEAVES, min_size=1, max_size=3).map(lambda of: AllOf(tuple(of)))
    | st.lists(LEAVES, min_size=1, max_size=3).map(lambda of: NOf(1, tuple(of)))
)
FALLBACKS = st.sampled_from(["run_anyway", "skip", "alert"])
TIMES_OF_DAY = st.sampled_from([time(0), time(2, 30), time(23, 59, 59, 999999)])
DEADLINES = st.builds(
    lambda after_s, fallback: InputDeadlineSpec(after_s=after_s, fallback=fallback), DURATIONS, FALLBACKS
) | st.builds(
    lambda at, zone, fallback: InputDeadlineSpec(at=at, timezone=zone, fallback=fallback),
    TIMES_OF_DAY,
    st.sampled_from(ZONES),
    FALLBACKS,
)


@st.composite
def timings(draw: DrawFn) -> Timing:
    given: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional=dict.fromkeys(("within_s", "quiet_for_s", "max_wait_s", "min_interval_s"), DURATIONS)
            | {"deadline": DEADLINES},
        )
    )
    if "quiet_for_s" not in given:
        given.pop("max_wait_s", None)
    return Timing(**given)


class Case(NamedTuple):
    """A DAG as it is stored, and the times at which it is looked at."""

    dag: DagView
    times: Sequence[datetime]


@st.composite
def cases(draw: DrawFn) -> Case:
    timetable = draw(timetables().filter(is_valid)) if (kind := draw(st.integers(0, 3))) else None
    schedule = draw(CONDITIONS) if kind != 1 else None
    together = schedule is not None and not isinstance(timetable, Continuous | None) and draw(st.booleans())
    timing = draw(timings()) if schedule is not None else Timing()
    if together:
        timing = msgspec.structs.replace(timing, deadline=None)
    limit = 1 if isinstance(timetable, Continuous) else draw(st.integers(1, 2))
    given: dict[str, Any] = draw(BOUNDS)
    per_minute = draw(st.sampled_from([None, None, 1, 100_000]))
    made = graph(
        "t",
        timetable=timetable,
        schedule=schedule,
        timing=timing,
        together=together,
        limit=limit,
        missed_per_minute=per_minute,
        **given,
    )
    optional = {"dataset_run_at": MOMENTS, "deadline_at": MOMENTS, "due_at": MOMENTS}
    events = st.builds(_event, st.integers(0, 2**31), st.sampled_from(["s://a", "s://b"]), MOMENTS, MOMENTS)
    pending = draw(st.lists(events, max_size=4, unique_by=lambda event: event.dataset_event_id)) if schedule else ()
    dag = dag_view(
        made,
        pending=tuple(sorted(pending, key=lambda event: event.dataset_event_id)),
        last_tick=draw(st.none() | MOMENTS.map(lambda at: Tick(at, at, at, at)) | st.tuples(MOMENTS, DURATIONS).map(_period))
        if timetable
        else None,
        timed_since=draw(MOMENTS) if timetable else None,
        **draw(st.fixed_dictionaries({}, optional=optional)),
    )
    return Case(dag, draw(st.lists(MOMENTS, min_size=1, max_size=3)))


def _event(number: int, uri: str, occurred_at: datetime, arrived_at: datetime) -> PendingEvent:
    return PendingEvent(1, number, uri, occurred_at, arrived_at, '{"n": 2}')


def _period(given: tuple[datetime, float]) -> Tick:
    start, end = given[0], min(given[0] + timedelta(seconds=given[1]), LATEST)
    return Tick(start, start, end, end)


def enter(case: Case, _: Path) -> None:
    dag = case.dag
    for now in case.times:
        began = clock.thread_time()
        check_ticks(dag, now)
        dag = at_rest(dag, now)
        explain_dag(DagFacts(now=now, dag=dag, status=task_facts.STATUS, daemons=[task_facts.DAEMON]))
        manual_interval(dag.graph.timetable, now)
        assert clock.thread_time() - began < WORK_S * ROUNDS / 10


def check_ticks(dag: DagView, now: datetime) -> None:
    """Each tick comes after the one before, in the range of times and the data interval before it."""
    bounds = msgspec.structs.replace(dag.graph.bounds, since=dag.timed_since)
    last = dag.last_tick
    for _ in range(2):
        tick = next_tick(dag.graph.timetable, last, bounds, now)
        if tick is None:
            return
        check_tick(tick, last, bounds, dag.graph)
        last = tick


def check_tick(tick: Tick, last: Tick | None, bounds: Bounds, of: Graph) -> None:
    assert EARLIEST - LENGTHS <= tick.logical_date <= tick.run_after <= LATEST + LENGTHS, tick
    assert tick.interval_start <= tick.interval_end == tick.run_after
    if last is not None and not isinstance(of.timetable, Continuous):
        mode = getattr(of.timetable, "mode", None)
        assert tick.run_after > last.run_after or mode == "interval", (last, tick)
        assert tick.logical_date > last.logical_date or mode == "trigger", (last, tick)


def at_rest(dag: DagView, now: datetime) -> DagView:
    """The DAG after all decisions at this time, of which the clock causes each but the first.

    Ticks at which a condition did not hold make no run: they may be many.
    """
    for _ in range(ROUNDS):
        before = dag = msgspec.structs.replace(dag, timed_run_ids=(201, 202, 203), event_run_ids=(301,))
        began = clock.thread_time()
        effects = list(schedule_next_runs(dag, now))
        assert clock.thread_time() - began < WORK_S
        check_storable(effects)
        dag = after(dag, effects)
        if dag.due_at is None or dag.due_at > now:
            return dag
        assert dag != before, f"at {now} the clock visits the DAG again and again: {dag.due_at}"
    assert dag.graph.requires_both, f"at {now} the clock still visits the DAG: {dag.due_at}"
    return dag


def after(dag: DagView, effects: Sequence[Effect]) -> DagView:
    for effect in effects:
        match effect:
            case UpdateSchedule():
                start, end = effect.last_interval_start, effect.last_interval_end
                date = effect.last_logical_date
                tick = Tick(date, start, end, end) if date and start and end else None
                dag = msgspec.structs.replace(
                    dag,
                    last_tick=tick,
                    due_at=effect.due_at,
                    dataset_run_at=effect.dataset_run_at,
                    deadline_at=effect.deadline_at,
                    last_source=effect.last_source,
                    catchup_until=effect.catchup_until,
                )
            case InsertRun():
                assert effect.run_type is not RunType.MANUAL
                dag = msgspec.structs.replace(dag, running=dag.running + 1)
            case ConsumeEvents() | DiscardEvents():
                gone = {event.dataset_event_id for event in effect.events}
                dag = msgspec.structs.replace(dag, pending=tuple(e for e in dag.pending if e.dataset_event_id not in gone))
            case _:
                pass
    return dag


DOOR = Door(cases(), enter, share=80, in_suite=50)
