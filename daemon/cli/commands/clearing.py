"""What `runs clear` and `tasks clear` share: list the tasks that would run again and what consumed them, ask, and clear them."""

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tidegate.daemon.cli.command import confirm
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import at, changed, read_settings, remote, with_database
from tidegate.daemon.identity.local_user import current_user, local_caller
from tidegate.daemon.read_model.clearing import ClearedRun, cleared_text, consequence, consumed_text
from tidegate.daemon.read_model.lookup import find_run
from tidegate.schemas.message import ClearRequested, options_of
from tidegate.schemas.queries.run_pages import RunRow
from tidegate.schemas.state import RUN_ENDED

if TYPE_CHECKING:
    from tidegate.daemon.postgres.database import Database

TITLES = ("RUN", "LOGICAL DATE", "STATE", "TASKS")
CONSUMER_TITLES = ("CONSUMER", "RUN", "STATE", "DATASET", "WRITTEN BY")

SHOWN_CONSUMERS = 20
"""The most runs of consumers that are listed; --json has about a thousand."""

NoDownstream = Annotated[bool, typer.Option("--no-downstream", help="Do not clear the tasks after these.")]


CancelFirst = Annotated[
    bool,
    typer.Option(
        "--cancel", help="First cancel the run if it has not ended, and wait until its attempts have ended: for --newest-version."
    ),
]


def clear_tasks(context: typer.Context, wanted: ClearRequested, *, yes: bool, json: bool, cancels: bool = False) -> None:
    """Clear the runs and tasks that `wanted` names. `cancels`: a run that has not ended is cancelled before.

    Raises RequestError if there is nothing to clear or the user declines, BadParameter without a terminal to ask on.
    """
    if cancels and (wanted.task_ids or wanted.only_failed):
        raise typer.BadParameter("a cancelled run has all its tasks to run again: leave out --task and --only-failed")
    found = clear_once(context, msgspec.structs.replace(wanted, newest_version=False) if cancels else wanted, dry_run=True)
    if not json:
        output.table(TITLES, map(_cells, found), empty="nothing")
        _print_consumers(found, wanted)
    if not yes:
        confirm("cancel and clear" if cancels else "clear", cleared_text(found))
        wanted = msgspec.structs.replace(wanted, shown=tuple(run.run_id for run in found))
    # A run that begins while the user decides is another `latest`.
    request = msgspec.structs.replace(wanted, run_id=found[0].run_id) if wanted.run_id is not None and found else wanted
    for run in found if cancels else ():
        if run.state not in RUN_ENDED:
            _cancel(context, request.dag_id, run.run_id)
    cleared = clear_once(context, request, dry_run=False)
    output.write_result({"dag_id": request.dag_id, "runs": cleared}, _cleared_text(cleared), json=json)


def _cancel(context: typer.Context, dag_id: str, run_id: str) -> None:
    """Cancel a run unless it has ended meanwhile, and wait for the ends of its attempts."""
    from tidegate.daemon import runs
    from tidegate.daemon.cli.commands import run_follow
    from tidegate.daemon.cli.pages.follow import wait_killed

    user = current_user(read_settings(context))

    async def work(database: "Database") -> None:
        await runs.cancel_runs(database, user, dag_id, [run_id])
        await wait_killed(database, await database.run(find_run, dag_id, run_id))

    if (server := remote(context)) is None:
        with_database(context, work)
    else:
        server.change("POST", at("dags", dag_id, "cancel"), runs.CancelledRuns, {"run_ids": [run_id]}, {})
        run_follow.wait_killed(server, server.read(at("dags", dag_id, "runs", run_id, "state"), RunRow, {}))


def _cleared_text(cleared: Sequence[ClearedRun]) -> str:
    done = f"cleared {cleared_text(cleared)}"
    id_ = cleared[0].backfill_id if cleared else None
    return done if id_ is None else f"{done}; backfill {id_} runs the consumers again: `tidegate backfills show {id_}`"


def consumers_text(found: Sequence[ClearedRun], options: ClearRequested) -> str:
    """How many runs consumed what is cleared, and what becomes of them; empty without any."""
    if not (text := consumed_text(found)):
        return ""
    hint = "" if options.cascade or options.announce else " --cascade runs them again, --announce publishes new events."
    return f"{text} {consequence(options)}{hint}"


def _print_consumers(found: Sequence[ClearedRun], options: ClearRequested) -> None:
    consumers = [consumer for run in found for consumer in run.consumers]
    if consumers:
        output.write()
        rows = ((it.dag_id, it.run_id, it.state, it.uri, f"{it.producer_dag_id} {it.producer_run_id}") for it in consumers)
        output.table(CONSUMER_TITLES, islice(rows, SHOWN_CONSUMERS), empty="none")
        if len(consumers) > SHOWN_CONSUMERS:
            output.write(f"  and {len(consumers) - SHOWN_CONSUMERS} more")
        output.write(consumers_text(found, options))


def clear_once(context: typer.Context, request: ClearRequested, *, dry_run: bool) -> list[ClearedRun]:
    """Clear by one request, or with `dry_run` only say what it would clear."""
    from tidegate.daemon import runs

    settings = read_settings(context)
    body: dict[str, Any] = {
        "run_id": request.run_id,
        "run_ids": request.run_ids,
        "since": request.start,
        "until": request.end,
        "task_ids": request.task_ids,
        "downstream": request.downstream,
        "shown": request.shown,
        "dry_run": dry_run,
        **options_of(request),
    }
    change = "POST", at("dags", request.dag_id, "clear")
    return changed(
        context,
        change,
        list[ClearedRun],
        lambda database: runs.clear(database, settings, local_caller(settings), request, dry_run=dry_run),
        body,
    )


def _cells(run: ClearedRun) -> tuple[output.Cell, ...]:
    return run.run_id, run.logical_date, run.state, ", ".join(run.tasks)
