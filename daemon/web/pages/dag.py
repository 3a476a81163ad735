"""A DAG: why it has no run, its runs and tasks as a grid, its schedule, and its versions."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Annotated

from markupsafe import Markup
from msgspec import Meta, Struct

from tidegate.daemon.api.dags import BY_NUMBER, VersionsOf
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Call, Params, Read
from tidegate.daemon.gateway.lists import Id, Keyset, Time
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.causes import Cause, read_causes
from tidegate.daemon.read_model.condition import Branch, condition_branch, schedule_of
from tidegate.daemon.read_model.dag import state_of
from tidegate.daemon.read_model.dag_options import Option, of_events, of_limits, of_time
from tidegate.daemon.read_model.grid import Grid, GridWindow, read_grid
from tidegate.daemon.read_model.inputs import missing_datasets, timing_text, with_events
from tidegate.daemon.read_model.lookup import find_dag
from tidegate.daemon.read_model.plan import UTC_CLOCK, Planned, list_planned, timezone_of
from tidegate.daemon.read_model.run_progress import read_run_blockers
from tidegate.daemon.read_model.stuck import StuckRun, read_stuck_of
from tidegate.daemon.read_model.why_not import DagWhyNot, read_dag_why_not
from tidegate.daemon.web.cells import LEGEND, rows_of
from tidegate.daemon.web.rendering import ran_s
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.queries import dataset_pages
from tidegate.schemas.queries import grid as grids
from tidegate.schemas.queries.backfill_pages import BackfillRow, list_backfills
from tidegate.schemas.queries.dag_pages import DagRow, LastRun, last_runs, plans
from tidegate.schemas.queries.dataset_pages import Rhythm
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.grid import Place, Usual, VersionRow
from tidegate.schemas.state import RUN_ENDED
from tidegate.schemas.timetable.wallclock import start_of_day

VERSIONS, BACKFILLS, NEXT_RUNS, MISSING = 10, 5, 6, 10

CELLS = 20_000
"""The most cells of a grid, runs by tasks: its page has 150 bytes of each."""

GRID = Keyset("grid", ("order_at", "id"), (Time, Id))


class DagParams(Params, frozen=True):
    """`before` and `after` are cursors of the grid; `at` is a day, in the zone of the DAG, whose runs it shows.

    `tasks` is its first task.
    """

    dag_id: str
    before: str | None = None
    after: str | None = None
    at: date | None = None
    runs: Annotated[int, Meta(ge=1, le=200)] = 30
    tasks: Annotated[int, Meta(ge=0, le=100_000)] = 0
    rows: Annotated[int, Meta(ge=1, le=500)] = 100


class DagScreen(Struct, frozen=True):
    """A DAG with a window of its grid.

    `spec` is None for a held DAG, whose version may be unreadable. `longest_s` scales the bars of the grid.

    `rows` is the number of tasks from one page of the grid to the next. `missing` are the first datasets without a pending
    event, and `more_missing` counts the others.
    `newest_waits_for` are the reasons why the newest run goes no further, beside those of its tasks.
    """

    dag: DagRow
    state: str
    spec: DagSpec | None
    schedule: str
    timing: str
    timezone: str
    why: DagWhyNot
    condition: Branch | None
    missing: Mapping[str, Rhythm]
    more_missing: int
    causes: Sequence[Cause]
    grid: Grid
    rows: int
    older: str | None
    newer: str | None
    longest_s: float
    usual: Usual | None
    newest: LastRun | None
    newest_waits_for: str
    stuck: StuckRun | None
    next_runs: Sequence[Planned]
    cells: Sequence[Markup]
    versions: Page[VersionRow]
    backfills: Sequence[BackfillRow]
    options: Sequence[Option]
    legend: Sequence[tuple[str, str]] = LEGEND

    @property
    def no_next_run(self) -> str:
        """Why no next run is known."""
        if self.spec and self.spec.timetable:
            return "Its timetable plans no more runs."
        return f"No time starts this DAG: {'its datasets do' if self.condition else 'only requests do'}."


async def read(db: Db, call: Call[DagParams]) -> DagScreen:
    params = call.params
    dag, why = await find_dag(db, params.dag_id), await read_dag_why_not(db, params.dag_id)
    plan = (await plans(db, params.dag_id)).get(params.dag_id)
    clock = timezone_of(plan.graph.timetable) if plan else UTC_CLOCK
    grid = await read_grid(db, params.dag_id, why.spec.tasks if why.spec else (), window_of(params, clock))
    missing = missing_datasets(why.spec, why.inputs)
    usual = await grids.usual(db, params.dag_id)
    newest = next(iter((await last_runs(db, [params.dag_id], 1))[params.dag_id]), None)
    return DagScreen(
        dag=dag,
        state=state_of(dag),
        spec=why.spec,
        schedule=schedule_of(dag, plan.graph.timetable if plan else None),
        timing=timing_text(why.spec.timing) if why.spec else "",
        timezone=clock,
        why=why,
        condition=_condition(why, db.now),
        missing=await _rhythms(db, missing[:MISSING]),
        more_missing=max(len(missing) - MISSING, 0),
        causes=await read_causes(db, missing),
        grid=grid,
        rows=rows_shown(params),
        older=GRID.cursor(grid.runs[0]) if grid.older and grid.runs else None,
        newer=GRID.cursor(grid.runs[-1]) if grid.newer and grid.runs else None,
        longest_s=max([*(ran_s(run.start_date, run.end_date, db.now) for run in grid.runs), usual.high_s if usual else 0.0, 1.0]),
        usual=usual,
        newest=newest,
        newest_waits_for=await _waits_for(db, newest, why),
        stuck=(await read_stuck_of(db, [params.dag_id], call.settings)).get(params.dag_id),
        next_runs=list_planned(plan, db.now, NEXT_RUNS) if plan else [],
        cells=rows_of(grid, dag.dag_id),
        versions=await _versions(db, params.dag_id),
        backfills=await list_backfills(db, dag_id=params.dag_id, limit=BACKFILLS),
        options=_options(why.spec) if why.spec else [],
    )


async def _rhythms(db: Db, uris: Sequence[str]) -> Mapping[str, Rhythm]:
    found = await dataset_pages.rhythms_of(db, uris)
    return {uri: found.get(uri, Rhythm()) for uri in uris}


async def _waits_for(db: Db, newest: LastRun | None, why: DagWhyNot) -> str:
    """Of a held DAG its hold: the version of the run may be unreadable."""
    if newest is None or newest.state in RUN_ENDED:
        return ""
    held = [gate.reason for gate in why.explanation.closed if gate.reason]
    reasons = held if why.spec is None else await read_run_blockers(db, newest.dag_id, newest.run_id)
    return "; ".join(reason.text for reason in reasons)


def _options(spec: DagSpec) -> list[Option]:
    """Its timetable stands above."""
    return [option for option in (*of_time(spec), *of_limits(spec), *of_events(spec)) if option[0] != "timetable"]


async def _versions(db: Db, dag_id: str) -> Page[VersionRow]:
    params = VersionsOf(dag_id=dag_id, limit=VERSIONS)
    return BY_NUMBER.page(await grids.list_versions(db, dag_id, VERSIONS + 1), params)


def rows_shown(params: DagParams) -> int:
    """The tasks of the grid: of many runs fewer than are asked for."""
    return min(params.rows, CELLS // params.runs)


def window_of(params: DagParams, clock: str) -> GridWindow:
    """Raises InvalidError for a cursor that is none of the grid."""
    before = place(params.before)
    if params.at is not None:
        before = Place(start_of_day(params.at + timedelta(days=1), clock), 0)
    return GridWindow(params.runs, rows_shown(params), params.tasks, before, None if before else place(params.after))


def _condition(why: DagWhyNot, now: datetime) -> Branch | None:
    if why.spec is None or why.spec.schedule is None:
        return None
    return condition_branch(why.spec.schedule, with_events(why.spec.schedule, why.inputs), now)


def place(text: str | None) -> Place | None:
    key = GRID.key(text)
    return Place(*key) if key else None


SCREEN = Screen(Read("/dags/{dag_id}", Right.VIEW, read, DagParams, DagScreen), "dag.html")
