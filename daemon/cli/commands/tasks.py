"""`tidegate tasks`: the tasks of a run, what they wrote and returned, why they wait; let them run again, or end them."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.daemon.cli.agreement import Yes
from tidegate.daemon.cli.command import DagId, EndState, Json, RunId, TaskId, examples, noun
from tidegate.daemon.cli.commands.clearing import Newest, NoDownstream, OnlyFailed, Upstream
from tidegate.daemon.cli.commands.clearing import clear as clear_these
from tidegate.daemon.cli.lookup import find_run, find_task
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.results import result_of
from tidegate.daemon.cli.pages.run import TASK_TITLES, task_cells
from tidegate.daemon.cli.session import query, settings_of, with_database
from tidegate.schemas.error import RequestError
from tidegate.schemas.explain.gates import TaskExplanation
from tidegate.schemas.message import ClearRequested, TaskMarked
from tidegate.schemas.queries import run_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import RunTaskRow
from tidegate.schemas.state import TaskState

if TYPE_CHECKING:
    from tidegate.daemon.postgres.database import Database

app = noun("List, explain, clear and mark tasks; read their logs and results.")


@app.command("list", epilog=examples("tidegate tasks list daily_delays latest"))
def list_(context: typer.Context, dag_id: DagId, run_id: RunId, *, json: Json = False) -> None:
    """List the tasks of a run."""

    async def read(db: Db) -> tuple[list[RunTaskRow], datetime]:
        run = await find_run(db, dag_id, run_id)
        return await run_pages.tasks_of(db, dag_id, run.run_id), db.now

    found, now = query(context, read)
    if json:
        output.write_json(found)
    else:
        output.table(TASK_TITLES, (task_cells(task, now) for task in found), empty="the run has not started yet")


@app.command(epilog=examples("tidegate tasks logs daily_delays latest join --follow"))
def logs(
    context: typer.Context,
    dag_id: DagId,
    run_id: RunId,
    task_id: TaskId,
    *,
    try_number: Annotated[int | None, typer.Option("--try", min=1, help="Which try; else the last one.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for the task, and go on until its try ends.")] = False,
    json: Json = False,
) -> None:
    """Print what a task wrote to stdout and stderr."""
    from tidegate.daemon.cli.pages.logs import LogReader, Wanted

    if follow and json:
        raise typer.BadParameter("a log that is followed is no JSON document", param_hint="--follow")
    settings = settings_of(context, "postgres_dsn")

    async def read(database: "Database") -> None:
        run = await database.run(find_run, dag_id, run_id)
        reader = LogReader(settings, database, Wanted(dag_id, run.run_id, task_id, try_number))
        if json:
            output.write_json(await reader.document())
        else:
            await reader.write(follow=follow)

    with_database(context, read)


@app.command(
    epilog=examples("tidegate tasks result daily_delays latest join", "tidegate tasks result daily_delays latest join | jq .rows")
)
def result(context: typer.Context, dag_id: DagId, run_id: RunId, task_id: TaskId, *, _json: Json = False) -> None:
    """Print what a task returned for those after it. It is JSON, with or without --json."""

    async def read(db: Db) -> Any:
        run = await find_run(db, dag_id, run_id)
        task = await find_task(db, run, task_id)
        if task.state != TaskState.SUCCESS:
            raise RequestError(f"task {task_id!r} of run {run.run_id!r} has not succeeded: it is {task.state}")
        value = await result_of(db, run, task_id)
        if value is None:
            raise RequestError(f"task {task_id!r} of run {run.run_id!r} returned nothing")
        return value

    output.write_json(query(context, read))


@app.command(
    "why-not",
    epilog=examples(
        "tidegate tasks why-not daily_delays latest report",
        "tidegate tasks why-not daily_delays latest load 3     # an instance of a mapped task, as load[3]",
        "tidegate tasks why-not daily_delays latest report --json | jq -r '.change[].commands[]'",
    ),
)
def why_not(
    context: typer.Context,
    dag_id: DagId,
    run_id: RunId,
    task_id: TaskId,
    map_index: Annotated[
        int | None, typer.Argument(metavar="[INDEX]", min=0, help="Which instance of a mapped task.", show_default=False)
    ] = None,
    *,
    json: Json = False,
) -> None:
    """Say why a task does not run: every gate from its run's condition to its backend, and the smallest change that lets it.

    A gate is open, closed, or not reached: whether that one is open shows only once those before it are. What is said comes from
    what decides. Exit code 0, whatever the answer.
    """
    from tidegate.daemon.cli.pages import task_why_not

    label, settings = task_id if map_index is None else f"{task_id}[{map_index}]", settings_of(context, "postgres_dsn")

    async def read(db: Db) -> tuple[TaskExplanation, datetime]:
        return await task_why_not.read_page(db, await find_run(db, dag_id, run_id), label, settings), db.now

    page, now = query(context, read)
    if json:
        output.write_json(task_why_not.document(page))
    else:
        task_why_not.print_page(page, now)


@app.command(
    epilog=examples(
        "tidegate tasks clear daily_delays latest join",
        "tidegate tasks clear daily_delays latest join report --no-downstream --yes",
    )
)
def clear(
    context: typer.Context,
    dag_id: DagId,
    run_id: RunId,
    task_ids: Annotated[list[str], typer.Argument(metavar="TASK…", help="The ids of the tasks.")],
    *,
    upstream: Upstream = False,
    no_downstream: NoDownstream = False,
    only_failed: OnlyFailed = False,
    newest_version: Newest = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Let tasks of a run, and what comes after them, run again. What works is killed first; earlier tries stay on record.

    It is said which ones before it is done. Setups and teardowns of what is cleared are cleared too.
    """
    asked = ClearRequested(
        dag_id=dag_id,
        run_id=run_id,
        task_ids=tuple(task_ids),
        upstream=upstream,
        downstream=not no_downstream,
        only_failed=only_failed,
        newest=newest_version,
    )
    clear_these(context, asked, yes=yes, json=json)


@app.command(epilog=examples("tidegate tasks mark daily_delays latest join success"))
def mark(context: typer.Context, dag_id: DagId, run_id: RunId, task_id: TaskId, state: EndState, *, json: Json = False) -> None:
    """Have it that a task succeeded or failed. What works is killed; what comes after it is decided anew."""
    from tidegate.daemon.cli.request import ask

    async def work(database: "Database") -> RunTaskRow:
        run = await database.run(find_run, dag_id, run_id)
        await database.run(find_task, run, task_id)
        await ask(database, TaskMarked(dag_id=dag_id, run_id=run.run_id, task_id=task_id, state=TaskState(state)))
        return await database.run(find_task, run, task_id)

    task = with_database(context, work)
    if json:
        output.write_json(task)
    else:
        output.write(f"marked {task_id} as {task.state}")
