"""Runs that are to be looked at as a whole: after a clear, when the run before went on, or to be stopped."""

from functools import partial

from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.duties.run_on_signal import run_on_signal
from tidegate.daemon.work import Work
from tidegate.schemas.message import RunReconsidered
from tidegate.schemas.queries import runs

AT_ONCE = 50


async def reconsider(context: Context, *, task_status: TaskStatus[None]) -> None:
    """For ever. Who is asked for stays on the list until the transaction that looked at it."""
    task_status.started()
    await run_on_signal(context, Work.RECONSIDER, partial(reconsidered, context))


async def reconsidered(context: Context) -> bool:
    """Look at the first on the list; whether there may be more."""
    ids = await context.database.ask(runs.to_reconsider, AT_ONCE)
    if ids:
        await context.submit_messages([RunReconsidered(dag_run_id=id_) for id_ in ids])
    return len(ids) == AT_ONCE
