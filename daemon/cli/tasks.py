"""`tidegate tasks`: the tasks of a run, and what they wrote."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.daemon.cli import output
from tidegate.daemon.cli.command import DagId, Json, RunId, examples, noun
from tidegate.daemon.cli.lookup import find_run
from tidegate.daemon.cli.run_page import TASK_TITLES, task_cells
from tidegate.daemon.cli.session import query, settings_of, with_database
from tidegate.schemas.queries import runs
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.runs import RunTaskRow

if TYPE_CHECKING:
    from tidegate.daemon.database import Database

app = noun("List the tasks of a run, read their logs.")


@app.command("list", epilog=examples("tidegate tasks list daily_delays latest"))
def list_(context: typer.Context, dag_id: DagId, run_id: RunId, *, json: Json = False) -> None:
    """List the tasks of a run."""

    async def read(db: Db) -> tuple[list[RunTaskRow], datetime]:
        run = await find_run(db, dag_id, run_id)
        return await runs.tasks_of(db, dag_id, run.run_id), db.now

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
    task_id: Annotated[str, typer.Argument(metavar="TASK", help="The id of the task.")],
    *,
    try_number: Annotated[int | None, typer.Option("--try", min=1, help="Which try; else the last one.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for the task, and go on until its try ends.")] = False,
    json: Json = False,
) -> None:
    """Print what a task wrote to stdout and stderr."""
    from tidegate.daemon.cli.logs import Reader, Wanted

    if follow and json:
        raise typer.BadParameter("a log that is followed is no JSON document", param_hint="--follow")
    settings = settings_of(context, "postgres_dsn")

    async def read(database: "Database") -> None:
        run = await database.run(lambda db: find_run(db, dag_id, run_id))
        reader = Reader(settings, database, Wanted(dag_id, run.run_id, task_id, try_number))
        if json:
            output.write_json(await reader.document())
        else:
            await reader.write(follow=follow)

    with_database(context, read)
