"""`tidegate runs clear`, `cancel` and `mark`: what a user changes about runs that there are."""

from typing import TYPE_CHECKING, Annotated

import typer

from tidegate.daemon.cli.agreement import Yes
from tidegate.daemon.cli.command import DagId, EndState, Json, RunId, Since, Until
from tidegate.daemon.cli.commands.clearing import Newest, NoDownstream, OnlyFailed, Upstream
from tidegate.daemon.cli.commands.clearing import clear as clear_these
from tidegate.daemon.cli.lookup import find_run
from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.session import settings_of, who, with_database
from tidegate.schemas.error import RequestError
from tidegate.schemas.message import ClearRequested, RunEndRequested
from tidegate.schemas.queries.run_pages import RunRow
from tidegate.schemas.state import RUN_ENDED, RunState

if TYPE_CHECKING:
    from tidegate.daemon.postgres.database import Database


def clear(
    context: typer.Context,
    dag_id: DagId,
    run_id: Annotated[
        str | None, typer.Argument(metavar="RUN", help="The id of the run, or `latest`; else --since and --until say which.")
    ] = None,
    *,
    since: Since = None,
    until: Until = None,
    task: Annotated[
        list[str] | None, typer.Option(metavar="TASK", help="Only this task and what comes after it; may be repeated.")
    ] = None,
    upstream: Upstream = False,
    no_downstream: NoDownstream = False,
    only_failed: OnlyFailed = False,
    newest_version: Newest = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Let tasks of a run, or of all runs of a time, run again. What works is killed first; earlier tries stay on record.

    It is said which ones before it is done. Runs that had ended wait for their turn again. Setups and teardowns of what is
    cleared are cleared too.
    """
    if (run_id is None) == (since is None and until is None):
        raise typer.BadParameter("either a run is needed, or --since, --until or both", param_hint="RUN")
    asked = ClearRequested(
        dag_id=dag_id,
        run_id=run_id,
        start=since,
        end=until,
        task_ids=tuple(task or ()),
        upstream=upstream,
        downstream=not no_downstream,
        only_failed=only_failed,
        newest=newest_version,
    )
    clear_these(context, asked, yes=yes, json=json)


def cancel(
    context: typer.Context,
    dag_id: DagId,
    run_id: RunId,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Until it is confirmed that nothing of the run works any more.")] = False,
    json: Json = False,
) -> None:
    """End a run that has not ended: what works is killed, what waits is skipped, and the run has failed."""
    from tidegate.daemon.cli.pages.follow import wait_killed
    from tidegate.daemon.cli.request import ask

    reason = f"cancelled by {who(settings_of(context))}"

    async def work(database: "Database") -> RunRow:
        run = await database.run(find_run, dag_id, run_id)
        if run.state in RUN_ENDED:
            raise RequestError(f"run {run.run_id!r} of DAG {dag_id!r} has ended already: {run.state}")
        await ask(
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


def mark(context: typer.Context, dag_id: DagId, run_id: RunId, state: EndState, *, json: Json = False) -> None:
    """Have it that a run succeeded, with all its tasks, or failed. What works is killed; no dataset is updated by it."""
    from tidegate.daemon.cli.request import ask

    reason = f"marked by {who(settings_of(context))}"

    async def work(database: "Database") -> RunRow:
        run = await database.run(find_run, dag_id, run_id)
        await ask(database, RunEndRequested(dag_id=dag_id, run_id=run.run_id, state=RunState(state), reason=reason))
        return await database.run(find_run, dag_id, run.run_id)

    run = with_database(context, work)
    if json:
        output.write_json(run)
    else:
        output.write(f"marked {dag_id} {run.run_id} as {run.state}")
