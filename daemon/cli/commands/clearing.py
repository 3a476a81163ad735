"""What `runs clear` and `tasks clear` share: list the tasks that would run again, ask, and clear them."""

from typing import Annotated, TypedDict

import msgspec
import typer

from tidegate.daemon.cli.command import confirm
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import at, changed, read_settings
from tidegate.daemon.identity.local_user import current_user
from tidegate.daemon.read_model.clearing import ClearedRun, cleared_text
from tidegate.schemas.message import ClearRequested

TITLES = ("RUN", "LOGICAL DATE", "STATE", "TASKS")


class ClearOptions(TypedDict):
    """Options that extend or restrict the cleared tasks."""

    upstream: Annotated[bool, typer.Option("--upstream", help="Also clear all tasks before these.")]
    no_downstream: Annotated[bool, typer.Option("--no-downstream", help="Do not clear the tasks after these.")]
    only_failed: Annotated[bool, typer.Option("--only-failed", help="Clear only tasks that failed, or whose upstream did.")]
    newest_version: Annotated[
        bool,
        typer.Option(
            "--newest-version",
            help="Move the runs to the newest version of the DAG. Refused while one runs with an older version.",
        ),
    ]


def clear_tasks(context: typer.Context, wanted: ClearRequested, options: ClearOptions, *, yes: bool, json: bool) -> None:
    """Clear the runs and tasks that `wanted` names, as the options say.

    Raises RequestError if there is nothing to clear or the user declines, BadParameter without a terminal to ask on.
    """
    wanted = msgspec.structs.replace(
        wanted,
        upstream=options["upstream"],
        downstream=not options["no_downstream"],
        only_failed=options["only_failed"],
        newest=options["newest_version"],
        user=current_user(read_settings(context)),
    )
    found = _clear(context, wanted, dry_run=True)
    if not json:
        output.table(TITLES, map(_cells, found), empty="nothing")
    if not yes:
        confirm("clear", cleared_text(found))
        wanted = msgspec.structs.replace(wanted, shown=tuple(run.run_id for run in found))
    # A run that begins while the user decides is another `latest`.
    request = msgspec.structs.replace(wanted, run_id=found[0].run_id) if wanted.run_id is not None and found else wanted
    cleared = _clear(context, request, dry_run=False)
    output.write_result({"dag_id": request.dag_id, "runs": cleared}, f"cleared {cleared_text(cleared)}", json=json)


def _clear(context: typer.Context, request: ClearRequested, *, dry_run: bool) -> list[ClearedRun]:
    from tidegate.daemon import runs

    body = {
        "run_id": request.run_id,
        "since": request.start,
        "until": request.end,
        "task_ids": request.task_ids,
        "upstream": request.upstream,
        "downstream": request.downstream,
        "only_failed": request.only_failed,
        "newest_version": request.newest,
        "shown": request.shown,
        "dry_run": dry_run,
    }
    change = "POST", at("dags", request.dag_id, "clear")
    return changed(context, change, list[ClearedRun], lambda database: runs.clear(database, request, dry_run=dry_run), body)


def _cells(run: ClearedRun) -> tuple[output.Cell, ...]:
    return run.run_id, run.logical_date, run.state, ", ".join(run.tasks)
