"""`tidegate dags`: what there is, what it waits for, and whether it may run."""

from collections.abc import Sequence
from datetime import datetime

import msgspec
import typer

from tidegate.daemon.cli import output, tree
from tidegate.daemon.cli.command import DagId, Json, examples, noun
from tidegate.daemon.cli.lookup import find_dag
from tidegate.daemon.cli.runs import RUN_TITLES, run_cells
from tidegate.daemon.cli.session import query, with_database
from tidegate.schemas.dag import BaseTask, Condition, DagSpec, kind_of
from tidegate.schemas.error import InvariantError
from tidegate.schemas.message import PauseRequested
from tidegate.schemas.queries import dags, datasets, runs
from tidegate.schemas.queries.dags import DagRow, ImportErrorRow
from tidegate.schemas.queries.datasets import PendingRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.runs import RunRow

app = noun("List, show, pause and unpause DAGs.")

LAST_RUNS = 5
TITLES = ("DAG", "STATE", "VERSION", "RUNNING", "QUEUED", "PENDING", "SCHEDULE", "FILE")
TASK_TITLES = ("TASK", "KIND", "AFTER", "RETRIES", "OUTLETS")


class DagPage(msgspec.Struct, frozen=True):
    """All of `dags show`."""

    dag: DagRow
    spec: DagSpec
    pending: Sequence[PendingRow]
    runs: Sequence[RunRow]


@app.command("list", epilog=examples("tidegate dags list", "tidegate dags list --json | jq -r '.[].dag_id'"))
def list_(context: typer.Context, *, json: Json = False) -> None:
    """List the DAGs."""

    async def read(db: Db) -> tuple[list[DagRow], list[ImportErrorRow]]:
        return await dags.list_dags(db), await dags.list_import_errors(db)

    found, errors = query(context, read)
    if json:
        output.write_json(found)
    else:
        output.table(TITLES, map(_cells, found), empty="there are no DAGs yet: put a DAG file into the DAG folder")
    if errors:
        files = "1 DAG file is" if len(errors) == 1 else f"{len(errors)} DAG files are"
        output.say(f"{files} broken; `tidegate dags errors` says why")


@app.command(epilog=examples("tidegate dags show daily_delays"))
def show(context: typer.Context, dag_id: DagId, *, json: Json = False) -> None:
    """Show a DAG: what it waits for, its tasks, its last runs."""

    async def read(db: Db) -> tuple[DagPage, datetime]:
        return await _page(db, dag_id), db.now

    page, now = query(context, read)
    if json:
        output.write_json(page)
    else:
        _print_page(page, now)


@app.command(epilog=examples("tidegate dags pause daily_delays"))
def pause(context: typer.Context, dag_id: DagId, *, json: Json = False) -> None:
    """Start no more runs and no more tasks of a DAG. What runs goes on; events that come meanwhile are not kept for it."""
    _set_paused(context, dag_id, paused=True, json=json)


@app.command(epilog=examples("tidegate dags unpause daily_delays"))
def unpause(context: typer.Context, dag_id: DagId, *, json: Json = False) -> None:
    """Let a DAG run again, first what waits already."""
    _set_paused(context, dag_id, paused=False, json=json)


@app.command(epilog=examples("tidegate dags errors"))
def errors(context: typer.Context, *, json: Json = False) -> None:
    """List the DAG files that are broken, and why.

    Their last good version stays in force.
    """
    found = query(context, dags.list_import_errors)
    if json:
        output.write_json(found)
        return
    for error in found:
        output.write(tree.problem(error.path, error.line, error.reason))
    if not found:
        output.say("no DAG file is broken")


def task_cells(task: BaseTask) -> tuple[output.Cell, ...]:
    """A line of a DAG's tasks, for `TASK_TITLES`."""
    return task.task_id, kind_of(task), ", ".join(task.upstream), task.retries, ", ".join(task.outlets)


def _set_paused(context: typer.Context, dag_id: str, *, paused: bool, json: bool) -> None:
    from tidegate.daemon.cli.request import ask

    with_database(context, lambda database: ask(database, PauseRequested(dag_id=dag_id, is_paused=paused)))
    if json:
        output.write_json({"dag_id": dag_id, "is_paused": paused})
    else:
        output.write(f"{'paused' if paused else 'unpaused'} {dag_id}")


async def _page(db: Db, dag_id: str) -> DagPage:
    dag = await find_dag(db, dag_id)
    spec = await dags.current_spec(db, dag_id)
    if spec is None:
        raise InvariantError(f"DAG {dag_id!r} has no current version")
    pending = await datasets.pending_of(db, dag_id)
    return DagPage(dag, spec, pending, await runs.list_runs(db, dag_id=dag_id, limit=LAST_RUNS))


def _print_page(page: DagPage, now: datetime) -> None:
    dag, spec = page.dag, page.spec
    output.heading(dag.dag_id)
    output.facts(
        (
            ("state", _state(dag)),
            ("description", spec.description),
            ("tags", ", ".join(spec.tags)),
            ("file", dag.path),
            ("broken", dag.import_error),
            ("version", dag.version),
            ("runs", f"{dag.running} running, {dag.queued} queued, at most {spec.max_active_runs} at a time"),
        )
    )
    if spec.schedule is not None:
        output.write()
        output.heading("starts when")
        pending = {row.uri: row for row in page.pending}
        for line in tree.lines(tree.condition_branch(spec.schedule, pending, now)):
            output.write(line)
    output.section("tasks", TASK_TITLES, map(task_cells, spec.tasks), empty="no tasks")
    output.section("last runs", RUN_TITLES, (run_cells(run, now) for run in page.runs), empty="no runs yet")


def _cells(dag: DagRow) -> tuple[output.Cell, ...]:
    condition = msgspec.convert(dag.schedule, Condition | None)
    schedule = None if condition is None else tree.condition_text(condition)
    return dag.dag_id, _state(dag), dag.version, dag.running, dag.queued, dag.pending, schedule, dag.path


def _state(dag: DagRow) -> str:
    if dag.is_stale:
        return "stale"
    return "paused" if dag.is_paused else "active"
