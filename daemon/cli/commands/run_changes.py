"""`tidegate runs clear`, `cancel` and `mark`: changes of existing runs."""

from typing import TYPE_CHECKING, Annotated, Unpack

import msgspec
import typer

from tidegate.daemon.cli.command import DagId, Json, MarkState, RunId, Since, Until, shared_options
from tidegate.daemon.cli.commands.clearing import ClearOptions, clear_request, clear_tasks
from tidegate.daemon.cli.confirmation import Yes
from tidegate.daemon.cli.lookup import find_run
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import current_user, read_settings, with_database
from tidegate.schemas.error import RequestError
from tidegate.schemas.message import RunEndRequested
from tidegate.schemas.queries.run_pages import RunRow
from tidegate.schemas.state import RUN_ENDED, RunState

if TYPE_CHECKING:
    from tidegate.daemon.postgres.database import Database


@shared_options(ClearOptions)
def clear(
    context: typer.Context,
    dag_id: DagId,
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN", help="The id of the run, or `latest`. Otherwise give --since or --until.")
    ] = None,
    *,
    since: Since = None,
    until: Until = None,
    task: Annotated[
        list[str] | None, typer.Option(metavar="TASK", help="Only this task and the tasks after it; may be repeated.")
    ] = None,
    yes: Yes = False,
    json: Json = False,
    **options: Unpack[ClearOptions],
) -> None:
    """Run tasks of one run, or of all runs in a time range, again. Active attempts are killed; earlier tries stay on record.

    Lists the tasks and asks for confirmation. Runs that had ended are queued again. Setups and teardowns of cleared tasks are
    cleared too.
    """
    if (run_id is None) == (since is None and until is None):
        raise typer.BadParameter("give either a run, or --since, --until or both", param_hint="RUN")
    request = clear_request(dag_id, run_id, task or (), options)
    clear_tasks(context, msgspec.structs.replace(request, start=since, end=until), yes=yes, json=json)


def cancel(
    context: typer.Context,
    dag_id: DagId,
    run_id: RunId,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until all attempts of the run have ended.")] = False,
    json: Json = False,
) -> None:
    """Stop a run: active attempts are killed, waiting tasks skipped, and the run fails. Exit code 1 for a run that has ended."""
    from tidegate.daemon.cli.pages.follow import wait_killed
    from tidegate.daemon.cli.request import apply_request

    reason = f"cancelled by {current_user(read_settings(context))}"

    async def work(database: "Database") -> RunRow:
        run = await database.run(find_run, dag_id, run_id)
        if run.state in RUN_ENDED:
            raise RequestError(f"run {run.run_id!r} of DAG {dag_id!r} has ended already: {run.state}")
        await apply_request(
            database, RunEndRequested(dag_id=dag_id, run_id=run.run_id, state=RunState.FAILED, reason=reason, only_if_active=True)
        )
        if not json:
            output.write(f"cancelled {dag_id} {run.run_id}")
        if wait:
            await wait_killed(database, run)
        return await database.run(find_run, dag_id, run.run_id)

    run = with_database(context, work)
    if json:
        output.write_json(run)


def mark(context: typer.Context, dag_id: DagId, run_id: RunId, state: MarkState, *, json: Json = False) -> None:
    """Set a run to success, with all its tasks, or to failed. Active attempts are killed; outlets are not updated."""
    from tidegate.daemon.cli.request import apply_request

    reason = f"marked by {current_user(read_settings(context))}"

    async def work(database: "Database") -> RunRow:
        run = await database.run(find_run, dag_id, run_id)
        await apply_request(database, RunEndRequested(dag_id=dag_id, run_id=run.run_id, state=RunState(state), reason=reason))
        return await database.run(find_run, dag_id, run.run_id)

    run = with_database(context, work)
    output.write_result(run, f"marked {dag_id} {run.run_id} as {run.state}", json=json)
