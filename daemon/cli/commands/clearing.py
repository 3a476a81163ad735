"""What `runs clear` and `tasks clear` share: list the tasks that would run again and what consumed them, ask, and clear them."""

from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any

import msgspec
import typer

from tidegate.daemon.cli.command import confirm
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import at, changed, read_settings
from tidegate.daemon.identity.local_user import local_caller
from tidegate.daemon.read_model.clearing import ClearedRun, cleared_text, consequence, consumed_text
from tidegate.schemas.message import ClearRequested, options_of

TITLES = ("RUN", "LOGICAL DATE", "STATE", "TASKS")
CONSUMER_TITLES = ("CONSUMER", "RUN", "STATE", "DATASET", "WRITTEN BY")

SHOWN_CONSUMERS = 20
"""The most runs of consumers that are listed; --json has about a thousand."""

NoDownstream = Annotated[bool, typer.Option("--no-downstream", help="Do not clear the tasks after these.")]


def clear_tasks(context: typer.Context, wanted: ClearRequested, *, yes: bool, json: bool) -> None:
    """Clear the runs and tasks that `wanted` names.

    Raises RequestError if there is nothing to clear or the user declines, BadParameter without a terminal to ask on.
    """
    found = _clear(context, wanted, dry_run=True)
    if not json:
        output.table(TITLES, map(_cells, found), empty="nothing")
        _print_consumers(found, wanted)
    if not yes:
        confirm("clear", cleared_text(found))
        wanted = msgspec.structs.replace(wanted, shown=tuple(run.run_id for run in found))
    # A run that begins while the user decides is another `latest`.
    request = msgspec.structs.replace(wanted, run_id=found[0].run_id) if wanted.run_id is not None and found else wanted
    cleared = _clear(context, request, dry_run=False)
    output.write_result({"dag_id": request.dag_id, "runs": cleared}, _cleared_text(cleared), json=json)


def _cleared_text(cleared: Sequence[ClearedRun]) -> str:
    done = f"cleared {cleared_text(cleared)}"
    id_ = cleared[0].backfill_id if cleared else None
    return done if id_ is None else f"{done}; backfill {id_} runs the consumers again: `tidegate backfills show {id_}`"


def _print_consumers(found: Sequence[ClearedRun], options: ClearRequested) -> None:
    consumers = [consumer for run in found for consumer in run.consumers]
    if consumers:
        output.write()
        rows = ((it.dag_id, it.run_id, it.state, it.uri, f"{it.producer_dag_id} {it.producer_run_id}") for it in consumers)
        output.table(CONSUMER_TITLES, islice(rows, SHOWN_CONSUMERS), empty="none")
        if len(consumers) > SHOWN_CONSUMERS:
            output.write(f"  and {len(consumers) - SHOWN_CONSUMERS} more")
        output.write(f"{consumed_text(found)} {consequence(options)}")


def _clear(context: typer.Context, request: ClearRequested, *, dry_run: bool) -> list[ClearedRun]:
    from tidegate.daemon import runs

    settings = read_settings(context)
    body: dict[str, Any] = {
        "run_id": request.run_id,
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
