"""`tidegate runs`: what ran, why and how; start one by hand, and change what became of one."""

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.daemon.cli.command import DagId, Json, Limit, RunId, Since, Until, examples, json_object, moment, noun
from tidegate.daemon.cli.commands import run_changes
from tidegate.daemon.cli.lookup import LATEST, find_dag, find_run
from tidegate.daemon.cli.pages import output, run_progress
from tidegate.daemon.cli.pages.run import RUN_TITLES, RunPage, print_page, read_page, run_cells
from tidegate.daemon.cli.session import query, settings_of, with_database
from tidegate.schemas.explain.progress import RunProgress
from tidegate.schemas.message import RunRequested
from tidegate.schemas.queries import run_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.run_pages import RunRow
from tidegate.schemas.state import RunState, RunType
from tidegate.schemas.timetable.text import utc

if TYPE_CHECKING:
    from tidegate.daemon.postgres.database import Database

app = noun("List, show, explain, trigger, clear, cancel and mark runs.")
app.command(
    epilog=examples(
        "tidegate runs clear daily_delays latest --only-failed",
        "tidegate runs clear daily_delays --since 2013-01-01 --until 2013-01-31 --yes",
        "tidegate runs clear daily_delays latest --task join --newest-version",
    )
)(run_changes.clear)
app.command(epilog=examples("tidegate runs cancel daily_delays latest --wait"))(run_changes.cancel)
app.command(epilog=examples("tidegate runs mark daily_delays latest success"))(run_changes.mark)

LogicalDate = Annotated[
    datetime | None,
    typer.Option(
        parser=moment,
        metavar="TIME",
        help="The date it is for, in UTC unless it says otherwise; it gets the timetable's data interval.",
    ),
]

_RUN_ID = re.compile(r"[\w.~:+-]{1,250}", re.ASCII)


@app.command(
    "list",
    epilog=examples(
        "tidegate runs list daily_delays --state failed",
        "tidegate runs list --type scheduled --since 2013-01-01 --until 2013-01-31",
        "tidegate runs list --json -n 1",
    ),
)
def list_(
    context: typer.Context,
    dag_id: Annotated[str | None, typer.Argument(metavar="DAG", help="Only runs of this DAG.")] = None,
    *,
    state: Annotated[RunState | None, typer.Option(help="Only runs in this state.")] = None,
    run_type: Annotated[RunType | None, typer.Option("--type", help="Only runs that were made so.")] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List runs, newest first."""

    async def read(db: Db) -> tuple[list[RunRow], datetime]:
        found = await run_pages.list_runs(
            db, dag_id=dag_id, state=state, run_type=run_type, since=since, until=until, limit=limit
        )
        if not found and dag_id is not None:
            await find_dag(db, dag_id)
        return found, db.now

    found, now = query(context, read)
    if json:
        output.write_json(found)
    else:
        output.table(("DAG", *RUN_TITLES), ((run.dag_id, *run_cells(run, now)) for run in found), empty="there are no such runs")


@app.command(
    epilog=examples(
        "tidegate runs show daily_delays latest", "tidegate runs show daily_delays latest --progress   # why it waits"
    )
)
def show(
    context: typer.Context,
    dag_id: DagId,
    run_id: RunId,
    *,
    progress: Annotated[bool, typer.Option("--progress", help="What works now, and what each task waits for.")] = False,
    json: Json = False,
) -> None:
    """Show a run: the events it consumed, every move it made, its tasks and their attempts."""
    settings = settings_of(context, "postgres_dsn")

    async def read(db: Db) -> tuple[RunPage | RunProgress, datetime]:
        run = await find_run(db, dag_id, run_id)
        return await run_progress.read_page(db, run, settings) if progress else await read_page(db, run), db.now

    page, now = query(context, read)
    if json:
        output.write_json(page)
    elif isinstance(page, RunProgress):
        run_progress.print_page(page, now)
    else:
        print_page(page, now)


@app.command(
    epilog=examples(
        "tidegate runs explain daily_delays latest",
        "tidegate runs explain daily_delays latest --json | jq -r '.stages[] | [.name, .took_s] | @tsv'",
    )
)
def explain(context: typer.Context, dag_id: DagId, run_id: RunId, *, json: Json = False) -> None:
    """Say why there is a run: which events or time made it, at which version of its DAG, who created it upon what.

    And how long each stage took, from the event that completed the condition to the run's end.
    """
    from tidegate.daemon.cli.pages import run_origin

    async def read(db: Db) -> tuple[run_origin.RunOrigin, datetime]:
        return await run_origin.read_page(db, await find_run(db, dag_id, run_id)), db.now

    page, now = query(context, read)
    if json:
        output.write_json(page)
    else:
        run_origin.print_page(page, now)


@app.command(
    epilog=examples(
        "tidegate runs trigger daily_delays --wait",
        """tidegate runs trigger daily_delays --run-id fix-1 --conf '{"day": "2013-01-01"}'""",
        "tidegate runs trigger daily_delays --logical-date 2013-01-01 --run-after 2026-11-21T22:00+01:00",
    )
)
def trigger(
    context: typer.Context,
    dag_id: DagId,
    *,
    logical_date: LogicalDate = None,
    run_after: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="TIME", help="When it may start; else now.")
    ] = None,
    conf: Annotated[str, typer.Option(metavar="JSON", help="An object that the tasks find in `run.params`.")] = "{}",
    run_id: Annotated[str | None, typer.Option(metavar="ID", help="The id of the run; else made from the time.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run until it ends; exit with 1 unless it succeeded.")] = False,
    json: Json = False,
) -> None:
    """Start a run. Where the DAG is paused or at its limit, the run waits for its turn."""
    from tidegate.daemon.cli.pages.follow import follow
    from tidegate.daemon.cli.request import ask

    new_id, given = _new_id(run_id), json_object("--conf", conf)
    request = RunRequested(dag_id=dag_id, run_id=new_id, conf=given, logical_date=logical_date, run_after=run_after)

    async def start(database: "Database") -> RunRow:
        await ask(database, request)
        if not json:
            output.write(f"triggered {dag_id} {new_id}")
        run = await database.run(find_run, dag_id, new_id)
        if run.state == RunState.QUEUED:
            output.say(_why_queued(run))
        return await follow(database, run) if wait else run

    run = with_database(context, start)
    if json:
        output.write_json(run)
    if wait and run.state != RunState.SUCCESS:
        raise typer.Exit(1)


def _why_queued(run: RunRow) -> str:
    if run.run_after > run.created_at:
        return f"it is queued: it may start at {utc(run.run_after)}"
    return "it is queued: the DAG is paused, in no file, or has as many active runs as it may"


def _new_id(given: str | None) -> str:
    if given is None:
        return f"manual__{datetime.now(UTC).isoformat()}"
    if not _RUN_ID.fullmatch(given) or given == LATEST:
        raise typer.BadParameter("1 to 250 of A-Z a-z 0-9 _ . ~ : + - are needed, and not `latest`", param_hint="--run-id")
    return given
