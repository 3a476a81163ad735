"""What `runs clear` and `tasks clear` share: list the tasks that would run again, ask, and clear them."""

from typing import Annotated, TypedDict

import msgspec
import typer

from tidegate.daemon.cli.command import confirm
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import query, read_settings, with_database
from tidegate.daemon.identity.local_user import current_user
from tidegate.daemon.read_model.clearing import ClearedRun, counted, preview
from tidegate.schemas.message import ClearRequested

TITLES = ("RUN", "LOGICAL DATE", "STATE", "TASKS")


class ClearOptions(TypedDict):
    """Options that extend or restrict the cleared tasks."""

    upstream: Annotated[bool, typer.Option("--upstream", help="Also clear all tasks before these.")]
    no_downstream: Annotated[bool, typer.Option("--no-downstream", help="Do not clear the tasks after these.")]
    only_failed: Annotated[bool, typer.Option("--only-failed", help="Clear only tasks that failed, or whose upstream did.")]
    newest_version: Annotated[
        bool, typer.Option("--newest-version", help="Move runs to the newest version of the DAG. Only for runs that have ended.")
    ]


def clear_tasks(context: typer.Context, wanted: ClearRequested, options: ClearOptions, *, yes: bool, json: bool) -> None:
    """Clear the runs and tasks that `wanted` names, as the options say.

    Raises RequestError if there is nothing to clear or the user declines, BadParameter without a terminal to ask on.
    """
    from tidegate.daemon.request import apply_request

    wanted = msgspec.structs.replace(
        wanted,
        upstream=options["upstream"],
        downstream=not options["no_downstream"],
        only_failed=options["only_failed"],
        newest=options["newest_version"],
        user=current_user(read_settings(context)),
    )
    request, runs = query(context, preview, wanted)
    if not json:
        output.table(TITLES, map(_cells, runs), empty="nothing")
    if not yes:
        confirm("clear", counted(runs))
    with_database(context, lambda database: apply_request(database, request))
    output.write_result({"dag_id": request.dag_id, "runs": runs}, f"cleared {counted(runs)}", json=json)


def _cells(run: ClearedRun) -> tuple[output.Cell, ...]:
    return run.run_id, run.logical_date, run.state, ", ".join(run.tasks)
