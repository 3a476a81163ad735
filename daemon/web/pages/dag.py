"""A DAG: why it has no run, its runs and tasks as a grid, its schedule, and its versions."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated

from markupsafe import Markup
from msgspec import Meta, Struct

from tidegate.daemon.gateway.endpoint import Call, Params, Read
from tidegate.daemon.gateway.lists import Id, Keyset, Time
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.condition import Branch, condition_branch, schedule_of
from tidegate.daemon.read_model.dag import state_of
from tidegate.daemon.read_model.grid import Grid, GridWindow, read_grid
from tidegate.daemon.read_model.inputs import missing_datasets, timing_text, with_events
from tidegate.daemon.read_model.lookup import find_dag
from tidegate.daemon.read_model.plan import Planned, list_planned, timezone_of
from tidegate.daemon.read_model.why_not import DagWhyNot, read_dag
from tidegate.daemon.web.cells import rows_of
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.queries import grid as grids
from tidegate.schemas.queries.backfill_pages import BackfillRow, list_backfills
from tidegate.schemas.queries.dag_pages import DagRow, plans
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.grid import GridRun, Place, Usual, VersionRow

VERSIONS, BACKFILLS, NEXT_RUNS = 10, 5, 6

GRID = Keyset("grid", ("order_at", "id"), (Time, Id))


class DagParams(Params, frozen=True):
    """`before` and `after` are cursors of the grid; `at` is a day whose runs it shows. `tasks` is its first task."""

    dag_id: str
    before: str | None = None
    after: str | None = None
    at: date | None = None
    runs: Annotated[int, Meta(ge=1, le=200)] = 30
    tasks: Annotated[int, Meta(ge=0, le=100_000)] = 0
    rows: Annotated[int, Meta(ge=1, le=500)] = 100


class DagScreen(Struct, frozen=True):
    """The page. `spec` is None for a held DAG, whose version may be unreadable. `longest_s` scales the bars of the grid."""

    dag: DagRow
    state: str
    spec: DagSpec | None
    schedule: str
    timing: str
    timezone: str
    why: DagWhyNot
    condition: Branch | None
    missing: Sequence[str]
    grid: Grid
    older: str | None
    newer: str | None
    longest_s: float
    usual: Usual | None
    next_runs: Sequence[Planned]
    cells: Sequence[Markup]
    versions: Sequence[VersionRow]
    backfills: Sequence[BackfillRow]


async def read(db: Db, call: Call[DagParams]) -> DagScreen:
    params = call.params
    dag, why = await find_dag(db, params.dag_id), await read_dag(db, params.dag_id)
    plan = (await plans(db, params.dag_id)).get(params.dag_id)
    grid = await read_grid(db, params.dag_id, why.spec.tasks if why.spec else (), window_of(params))
    usual = await grids.usual(db, params.dag_id)
    return DagScreen(
        dag=dag,
        state=state_of(dag),
        spec=why.spec,
        schedule=schedule_of(dag, plan.graph.timetable if plan else None),
        timing=timing_text(why.spec.timing) if why.spec else "",
        timezone=timezone_of(plan.graph.timetable) if plan else "UTC",
        why=why,
        condition=_condition(why, db.now),
        missing=missing_datasets(why.spec, why.inputs),
        grid=grid,
        older=GRID.cursor(grid.runs[0]) if grid.older and grid.runs else None,
        newer=GRID.cursor(grid.runs[-1]) if grid.newer and grid.runs else None,
        longest_s=max([*(seconds(run, db.now) for run in grid.runs), usual.high_s if usual else 0.0, 1.0]),
        usual=usual,
        next_runs=list_planned(plan, db.now, NEXT_RUNS) if plan else [],
        cells=rows_of(grid, dag.dag_id),
        versions=await grids.list_versions(db, params.dag_id, VERSIONS),
        backfills=await list_backfills(db, dag_id=params.dag_id, limit=BACKFILLS),
    )


def window_of(params: DagParams) -> GridWindow:
    """Raises InvalidError for a cursor that is none of the grid."""
    before = place(params.before)
    if params.at is not None:
        before = Place(datetime.combine(params.at, time(), UTC) + timedelta(days=1), 0)
    return GridWindow(params.runs, params.rows, params.tasks, before, None if before else place(params.after))


def seconds(run: GridRun, now: datetime) -> float:
    """How long a run took so far."""
    return 0.0 if run.start_date is None else max(((run.end_date or now) - run.start_date).total_seconds(), 0.0)


def _condition(why: DagWhyNot, now: datetime) -> Branch | None:
    if why.spec is None or why.spec.schedule is None:
        return None
    return condition_branch(why.spec.schedule, with_events(why.spec.schedule, why.inputs), now)


def place(text: str | None) -> Place | None:
    key = GRID.key(text)
    return Place(*key) if key else None


SCREEN = Screen(Read("/dags/{dag_id}", Right.VIEW, read, DagParams, DagScreen), "dag.html")
