"""Reconsider: evaluates all tasks of a run after a clear, a failure with `fail_fast`, or progress of the previous run."""

from functools import partial

from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.duties.run_on_signal import run_on_signal
from tidegate.daemon.engine import NOTHING
from tidegate.daemon.work import Work
from tidegate.schemas.message import RunReconsidered
from tidegate.schemas.queries import runs

MAX_BATCH = 50


async def reconsider(context: Context, *, task_status: TaskStatus[None]) -> None:
    """Reconsider runs, for ever. A run stays on the list until the transaction that evaluated it."""
    task_status.started()
    await run_on_signal(context, Work.RECONSIDER, partial(reconsider_batch, context, set()))


async def reconsider_batch(context: Context, locked: set[int]) -> bool:
    """Reconsider the first runs of the list that are not `locked` by other sessions. Returns whether more may be left.

    `locked` gets the runs of a batch that had to leave out some, until none is left.
    """
    ids = await context.database.autocommit(runs.to_reconsider, MAX_BATCH, locked)
    applied = await context.submit_messages([RunReconsidered(dag_run_id=id_) for id_ in ids]) if ids else NOTHING
    if len(ids) < MAX_BATCH:
        locked.clear()
    elif applied.has_skipped:
        locked.update(ids)
    return len(ids) == MAX_BATCH
