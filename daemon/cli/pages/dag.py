"""`dags list`, and `dags show`: what starts a DAG, its limits, its next runs, its tasks, its last runs."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice, starmap
from typing import Any

import msgspec

from tidegate.daemon.cli.lookup import find_dag
from tidegate.daemon.cli.pages import inputs, output, tree
from tidegate.daemon.cli.pages.inputs import InputRow
from tidegate.daemon.cli.pages.lists import RUN_TITLES, run_cells
from tidegate.daemon.cli.pages.plan import Planned, next_run, planned, print_planned, timezone_of, upcoming_ticks
from tidegate.schemas.conditions.condition import Condition
from tidegate.schemas.dag import BaseTask, DagSpec, ParamSpec, kind_of
from tidegate.schemas.queries import dag_pages, datasets, run_pages, versions
from tidegate.schemas.queries.dag_pages import DagRow, NoteRow, plans
from tidegate.schemas.queries.datasets import PendingRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import RunRow
from tidegate.schemas.timetable.spec import Timetable, describe
from tidegate.schemas.timetable.text import span

LAST_RUNS, LAST_NOTES, NEXT_RUNS = 5, 5, 3
LIST_TITLES = ("DAG", "STATE", "VERSION", "RUNNING", "QUEUED", "PENDING", "SCHEDULE", "NEXT", "FILE")
NOTE_TITLES = ("KIND", "LAST", "TIMES", "WHAT")
TASK_TITLES = ("TASK", "KIND", "AFTER", "RETRIES", "OUTLETS")
PARAM_TITLES = ("PARAM", "DEFAULT", "SCHEMA")
CATCHUP = {
    "all": "on: every missed run is started",
    "latest": "off: only the latest missed run is started",
    "skip": "off: missed runs are skipped",
}


class DagPage(msgspec.Struct, frozen=True):
    """A DAG. `next_runs` are those of its timetable, also while it is paused."""

    dag: DagRow
    spec: DagSpec
    pending: Sequence[PendingRow]
    inputs: Sequence[InputRow]
    notes: Sequence[NoteRow]
    next_runs: Sequence[Planned]
    runs: Sequence[RunRow]


async def read_page(db: Db, dag_id: str) -> DagPage:
    dag = await find_dag(db, dag_id)
    spec = await versions.current_spec(db, dag_id)
    plan = (await plans(db, dag_id)).get(dag_id)
    return DagPage(
        dag=dag,
        spec=spec,
        pending=await datasets.pending_counts(db, dag_id),
        inputs=await inputs.read_inputs(db, dag_id, spec),
        notes=await dag_pages.list_notes(db, dag_id, LAST_NOTES),
        next_runs=[planned(tick) for tick in islice(upcoming_ticks(plan, db.now), NEXT_RUNS)] if plan else [],
        runs=await run_pages.list_runs(db, dag_id=dag_id, limit=LAST_RUNS),
    )


def print_page(page: DagPage, now: datetime) -> None:
    dag, spec = page.dag, page.spec
    output.heading(dag.dag_id)
    output.facts(
        (
            ("state", state_of(dag)),
            ("held because", dag.hold_reason),
            ("description", spec.description),
            ("tags", ", ".join(spec.tags)),
            ("file", dag.path),
            ("broken", dag.import_error),
            ("version", dag.version),
            *_time(spec),
            *_limits(dag, spec),
            *_consumption(spec),
        )
    )
    if spec.schedule is not None:
        tree.print_condition("starts when", spec.schedule, page.inputs, now)
        if words := inputs.timing_text(spec.timing):
            output.write(f"counted {words}")
    if spec.timetable is not None:
        output.write()
        output.heading("next runs")
        print_planned(page.next_runs, timezone_of(spec.timetable))
    if spec.params:
        output.section("params", PARAM_TITLES, starmap(_param_cells, spec.params.items()), empty="none")
    output.section("tasks", TASK_TITLES, map(task_cells, spec.tasks), empty="no tasks")
    if page.notes:
        output.section("no runs", NOTE_TITLES, ((n.kind, n.last_at, n.times, n.reason) for n in page.notes), empty="none")
    output.section("last runs", RUN_TITLES, (run_cells(run, now) for run in page.runs), empty="no runs yet")


def task_cells(task: BaseTask) -> tuple[output.Cell, ...]:
    """A line of a DAG's tasks, for `TASK_TITLES`."""
    kind = ", ".join(filter(None, (kind_of(task), tree.role_text(task))))
    return task.task_id, kind, tree.after_text(task), task.retries, ", ".join(task.outlets)


def _param_cells(name: str, param: ParamSpec) -> tuple[output.Cell, ...]:
    default = "must be given" if param.default is msgspec.UNSET else msgspec.json.encode(param.default).decode()
    return name, default, output.compact(param.schema)


def state_of(dag: DagRow) -> str:
    if dag.held_since is not None:
        return "held"
    if dag.is_stale:
        return "stale"
    return "paused" if dag.is_paused else "active"


def _time(spec: DagSpec) -> Iterator[tuple[str, output.Cell]]:
    if spec.timetable is not None:
        yield "timetable", describe(spec.timetable)
        yield "start date", spec.start_date
        yield "end date", spec.end_date
        yield "catchup", CATCHUP[spec.missed]


def _consumption(spec: DagSpec) -> Iterator[tuple[str, output.Cell]]:
    if spec.mode == "each":
        yield "mode", "each event makes a run of its own"
    if spec.together:
        yield "datasets and time", "a tick makes a run only if the condition holds"
    if spec.schedule is not None and spec.on_paused == "keep":
        yield "while paused", "events stay pending"


def _limits(dag: DagRow, spec: DagSpec) -> Iterator[tuple[str, output.Cell]]:
    yield "runs", f"{dag.running} running, {dag.queued} queued, at most {spec.max_active_runs} at a time"
    yield "tasks", f"of each run at most {spec.max_active_tasks} at a time"
    if spec.run_timeout_s is not None:
        yield "run timeout", span(spec.run_timeout_s)
    if spec.max_failed_runs:
        yield "paused after", f"{spec.max_failed_runs} failed runs in a row"
    if spec.fail_fast:
        yield "fail fast", "the first task that fails ends its run"
    if not spec.allow_backfills:
        yield "backfills", "not allowed"


class ListedDag(msgspec.Struct, frozen=True):
    """A DAG, and the next run of its timetable."""

    dag: DagRow
    timetable: Timetable | None
    next_run: Planned | None

    def document(self) -> dict[str, Any]:
        """The JSON object."""
        return {**msgspec.structs.asdict(self.dag), "timetable": self.timetable, "next_run": self.next_run}


async def read_list(db: Db) -> list[ListedDag]:
    timed = await plans(db)
    return [
        ListedDag(dag, plan.graph.timetable if plan else None, next_run(plan, db.now))
        for dag in await dag_pages.list_dags(db)
        for plan in (timed.get(dag.dag_id),)
    ]


def print_list(dags: Iterable[ListedDag]) -> None:
    output.table(LIST_TITLES, map(_list_cells, dags), empty="there are no DAGs yet: put a DAG file into the DAG folder")


def _condition(dag: DagRow) -> Condition | None:
    """None also where the stored condition cannot be read."""
    try:
        condition: Condition | None = msgspec.convert(dag.schedule, Condition | None)
    except msgspec.ValidationError:
        return None
    return condition


def _list_cells(listed: ListedDag) -> tuple[output.Cell, ...]:
    dag = listed.dag
    condition = _condition(dag)
    schedule = tree.schedule_text(condition, listed.timetable, together=dag.together)
    due = listed.next_run.run_after if listed.next_run else None
    return dag.dag_id, state_of(dag), dag.version, dag.running, dag.queued, dag.pending, schedule, due, dag.path
