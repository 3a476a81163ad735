"""`tidegate runs`: list, show, explain, trigger and change runs."""

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Unpack, cast

import msgspec
import typer

from tidegate.daemon.cli.command import (
    DagId,
    Json,
    Limit,
    MarkState,
    OnlyDag,
    RunId,
    Yes,
    command_group,
    examples,
    parse_json_object,
    parse_time,
    shared_options,
)
from tidegate.daemon.cli.commands.clearing import CancelFirst, NoDownstream, clear_tasks
from tidegate.daemon.cli.commands.selected_runs import RunFilters, cancel_selected, clear_selected, is_selection
from tidegate.daemon.cli.pages import output, run_progress
from tidegate.daemon.cli.pages.lists import RUNS, print_list
from tidegate.daemon.cli.pages.run import print_page
from tidegate.daemon.cli.session import at, changed, listed, read_settings, remote, shown, with_database
from tidegate.daemon.identity.local_user import current_user
from tidegate.daemon.read_model.lookup import find_run, list_of_dag
from tidegate.daemon.read_model.run import RunPage, read_run_page
from tidegate.daemon.read_model.run_progress import read_run_progress
from tidegate.schemas.error import RequestError
from tidegate.schemas.explain.gates import RunProgress
from tidegate.schemas.message import ClearOptions, ClearRequested, RunRequested
from tidegate.schemas.queries import run_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.notes import Note
from tidegate.schemas.queries.run_pages import RunRow
from tidegate.schemas.state import RunState

if TYPE_CHECKING:
    from tidegate.daemon.cli.remote import Remote
    from tidegate.daemon.postgres.database import Database

app = command_group()

LogicalDate = Annotated[
    datetime | None,
    typer.Option(
        parser=parse_time,
        metavar="TIME",
        help="The logical date, UTC without an offset; the timetable adds the data interval.",
    ),
]


@app.command(
    "list",
    epilog=examples(
        "tidegate runs list daily_delays --state failed",
        "tidegate runs list --type scheduled --since 2013-01-01 --until 2013-01-31",
        "tidegate runs list --json -n 1",
    ),
)
@shared_options(RunFilters)
def list_(
    context: typer.Context, dag_id: OnlyDag = None, *, limit: Limit = 50, json: Json = False, **filters: Unpack[RunFilters]
) -> None:
    """List runs, newest first."""

    async def read(db: Db) -> list[RunRow]:
        return await list_of_dag(db, run_pages.list_filtered, dag_id, limit=limit, **filters)

    print_list(RUNS, *listed(context, "/runs", RunRow, read, limit, dag_id=dag_id, **filters), json=json)


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
    progress: Annotated[bool, typer.Option("--progress", help="Print the active tasks, and what each other one awaits.")] = False,
    json: Json = False,
) -> None:
    """Show a run: the events it consumed, its state changes, its tasks and their attempts."""
    settings = read_settings(context)

    async def read(db: Db) -> RunPage:
        return await read_run_page(db, await find_run(db, dag_id, run_id))

    async def read_its_progress(db: Db) -> RunProgress:
        return await read_run_progress(db, await find_run(db, dag_id, run_id), settings)

    if progress:
        found, now = shown(context, at("dags", dag_id, "runs", run_id, "progress"), RunProgress, read_its_progress)
        output.write_page(found, partial(run_progress.print_page, found, now), json=json)
    else:
        page, now = shown(context, at("dags", dag_id, "runs", run_id), RunPage, read)
        output.write_page(page, partial(print_page, page, now), json=json)


@app.command(
    epilog=examples(
        "tidegate runs explain daily_delays latest",
        "tidegate runs explain daily_delays latest --json | jq -r '.stages[] | [.name, .took_s] | @tsv'",
    )
)
def explain(context: typer.Context, dag_id: DagId, run_id: RunId, *, json: Json = False) -> None:
    """Explain why a run exists: the events or the time that created it, the DAG version, and the creating user or daemon.

    Also prints how long each stage took, from the event that met the condition to the end of the run.
    """
    from tidegate.daemon.cli.pages.run_origin import print_page as print_origin
    from tidegate.daemon.read_model import run_origin

    async def read(db: Db) -> run_origin.RunOrigin:
        return await run_origin.read_run_origin(db, await find_run(db, dag_id, run_id))

    page, now = shown(context, at("dags", dag_id, "runs", run_id, "origin"), run_origin.RunOrigin, read)
    output.write_page(page, lambda: print_origin(page, now), json=json)


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
        datetime | None, typer.Option(parser=parse_time, metavar="TIME", help="The earliest start. Default: now.")
    ] = None,
    conf: Annotated[str, typer.Option(metavar="JSON", help="A JSON object, which tasks read as `run.params`.")] = "{}",
    run_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="The id of the run; not scheduled__…, dataset__… or backfill__…. Default: made from the time."
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of the run; exit code 1 unless it succeeded.")] = False,
    json: Json = False,
) -> None:
    """Start a run. It stays queued while the DAG is paused or at its limit of active runs."""
    from tidegate.daemon import runs
    from tidegate.daemon.cli.pages.follow import follow

    try:
        new_id = runs.new_run_id(run_id)
    except RequestError as error:
        raise typer.BadParameter(str(error), param_hint="--run-id") from error
    conf_object = parse_json_object("--conf", conf)
    request = RunRequested(dag_id=dag_id, run_id=new_id, conf=conf_object, logical_date=logical_date, run_after=run_after)

    async def start(database: "Database") -> RunRow:
        run = await runs.trigger_once(database, request)
        if not json:
            output.write(f"triggered {dag_id} {new_id}")
        if run.state == RunState.QUEUED:
            output.say(runs.why_queued(run))
        return await follow(database, run, read_settings(context)) if wait else run

    server = remote(context)
    body = {"run_id": new_id, "conf": conf_object, "logical_date": logical_date, "run_after": run_after}
    run = with_database(context, start) if server is None else _start(server, dag_id, body, wait=wait, json=json)
    if json:
        output.write_json(run)
    if wait and run.state != RunState.SUCCESS:
        raise typer.Exit(1)


@app.command(
    epilog=examples(
        "tidegate runs clear daily_delays latest --only-failed",
        "tidegate runs clear daily_delays --since 2013-01-01 --until 2013-01-31 --yes",
        "tidegate runs clear --tag nightly --state failed --only-failed",
        "tidegate runs clear daily_delays latest --newest-version --cancel   # while it is running",
        "tidegate runs clear daily_delays latest --task join --newest-version",
        "tidegate runs clear daily_delays latest --cascade   # and the runs that consumed what it writes",
    )
)
@shared_options(RunFilters)
@shared_options(ClearOptions)
def clear(
    context: typer.Context,
    dag_id: OnlyDag = None,
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN", help="The id of the run, or `latest`. Otherwise select runs by options.")
    ] = None,
    *,
    task: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TASK", help="Only this task, or instance such as 'load[3]', and the tasks after it; may be repeated."
        ),
    ] = None,
    no_downstream: NoDownstream = False,
    cancel: CancelFirst = False,
    yes: Yes = False,
    json: Json = False,
    **options: Any,
) -> None:
    """Run tasks of one run, or of all runs that the options select, again. Active attempts are killed; earlier tries stay.

    Lists the tasks and asks for confirmation; of selected runs it counts them. Runs that had ended are queued again. Setups and
    teardowns of cleared tasks are cleared too. Also lists the runs that consumed what these tasks wrote.
    """
    filters, options = _divided(options)
    if (run_id is None) is not is_selection(filters):
        raise typer.BadParameter("give either a run, or options that select runs, such as --state or --since", param_hint="RUN")
    downstream, tasks = not no_downstream, tuple(task or ())
    wanted = ClearRequested(dag_id=dag_id or "", run_id=run_id, task_ids=tasks, downstream=downstream, **options)
    if run_id is not None:
        clear_tasks(context, wanted, cancels=cancel, yes=yes, json=json)
    elif cancel:
        raise typer.BadParameter("it is for one run: give a run, or cancel the selected runs first", param_hint="--cancel")
    elif dag_id is not None and _is_time_range(filters):
        in_time = msgspec.structs.replace(wanted, start=filters["since"], end=filters["until"])
        clear_tasks(context, in_time, yes=yes, json=json)
    else:
        clear_selected(context, dag_id, filters, wanted, yes=yes, json=json)


def _divided(options: dict[str, Any]) -> tuple[RunFilters, dict[str, Any]]:
    """The filters, and the other options."""
    filters = cast("RunFilters", {name: options[name] for name in RunFilters.__annotations__})
    return filters, {name: value for name, value in options.items() if name not in filters}


def _is_time_range(filters: RunFilters) -> bool:
    """Whether the runs of one DAG are selected by their time alone: one transaction clears them all, or none."""
    return not is_selection({**filters, "since": None, "until": None})


@app.command(
    epilog=examples(
        "tidegate runs cancel daily_delays latest --wait",
        "tidegate runs cancel --tag nightly --state queued",
        "tidegate runs cancel --dataset lake://flights --since 2013-01-01 --yes",
    )
)
@shared_options(RunFilters)
def cancel(
    context: typer.Context,
    dag_id: OnlyDag = None,
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN", help="The id of the run, or `latest`. Otherwise select runs by options.")
    ] = None,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all attempts of the run have ended.")] = False,
    yes: Yes = False,
    json: Json = False,
    **filters: Unpack[RunFilters],
) -> None:
    """Stop a run, or all runs that the options select: active attempts are killed, waiting tasks skipped, and the run fails.

    Exit code 1 for a run that has ended. Of selected runs it leaves these out, counts the others, and asks. It also works for a
    held DAG, whose version is not read.
    """
    if (run_id is None) is not is_selection(filters):
        raise typer.BadParameter("give either a run, or options that select runs, such as --state or --since", param_hint="RUN")
    if dag_id is not None and run_id is not None:
        _cancel_one(context, dag_id, run_id, wait=wait, json=json)
    elif wait:
        raise typer.BadParameter("it is for one run", param_hint="--wait")
    else:
        cancel_selected(context, dag_id, filters, yes=yes, json=json)


def _cancel_one(context: typer.Context, dag_id: str, run_id: str, *, wait: bool, json: bool) -> None:
    from tidegate.daemon import runs
    from tidegate.daemon.cli.pages.follow import wait_killed

    user = current_user(read_settings(context))

    async def work(database: "Database") -> RunRow:
        run = await runs.cancel(database, user, dag_id, run_id)
        if not json:
            output.write(f"cancelled {dag_id} {run.run_id}")
        if wait:
            await wait_killed(database, run)
        return await database.run(find_run, dag_id, run.run_id)

    server = remote(context)
    run = with_database(context, work) if server is None else _cancel(server, dag_id, run_id, wait=wait, json=json)
    if json:
        output.write_json(run)


@app.command(epilog=examples("tidegate runs mark daily_delays latest success"))
def mark(context: typer.Context, dag_id: DagId, run_id: RunId, state: MarkState, *, json: Json = False) -> None:
    """Set a run to success, with all its tasks, or to failed. Active attempts are killed; outlets are not updated."""
    from tidegate.daemon import runs

    user = current_user(read_settings(context))
    path = at("dags", dag_id, "runs", run_id, "mark")
    run = changed(
        context,
        ("POST", path),
        RunRow,
        lambda database: runs.mark(database, user, dag_id, run_id, RunState(state)),
        {"state": state},
    )
    output.write_result(run, f"marked {dag_id} {run.run_id} as {run.state}", json=json)


@app.command(
    epilog=examples(
        'tidegate runs note daily_delays latest "late: the vendor delivers at noon"',
        'tidegate runs note daily_delays latest "known, see ticket 4711" --task join',
        "tidegate runs note daily_delays latest --remove",
    )
)
def note(
    context: typer.Context,
    dag_id: DagId,
    run_id: RunId,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="At most 2,000 characters.")] = None,
    *,
    task: Annotated[str | None, typer.Option(metavar="TASK", help="The note is on this task of the run.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the note.")] = False,
    json: Json = False,
) -> None:
    """Write the note of a run or of a task, in the place of the one before, or remove it. The user is recorded."""
    from tidegate.daemon import notes

    if (text is not None and notes.checked(text) != "") is remove:
        raise typer.BadParameter("give either a text or --remove", param_hint="TEXT")
    user = current_user(read_settings(context))
    path = at("dags", dag_id, "runs", run_id, *(("tasks", task) if task else ()), "note")
    content = text or ""
    found = changed(
        context,
        ("DELETE", path) if remove else ("PUT", path),
        list[Note],
        lambda database: notes.set_note(database, user, dag_id, run_id, task, content),
        {} if remove else {"content": content},
    )
    output.write_result(found, "removed the note" if remove else "the note is written", json=json)


def _start(server: "Remote", dag_id: str, body: dict[str, Any], *, wait: bool, json: bool) -> RunRow:
    from tidegate.daemon.cli.commands.run_follow import follow
    from tidegate.daemon.runs import why_queued

    run = server.change("POST", at("dags", dag_id, "runs"), RunRow, body, {})
    if not json:
        output.write(f"triggered {dag_id} {run.run_id}")
    if run.state == RunState.QUEUED:
        output.say(why_queued(run))
    return follow(server, run) if wait else run


def _cancel(server: "Remote", dag_id: str, run_id: str, *, wait: bool, json: bool) -> RunRow:
    from tidegate.daemon.cli.commands.run_follow import wait_killed

    run = server.change("POST", at("dags", dag_id, "runs", run_id, "cancel"), RunRow, {}, {})
    if not json:
        output.write(f"cancelled {dag_id} {run.run_id}")
    return wait_killed(server, run) if wait else run
