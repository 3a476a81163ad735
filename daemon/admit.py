"""Admit waiting tasks to their pools, as soon as there are any and room for them."""

from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.engine import Work
from tidegate.daemon.outage import Backoff
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.message import TasksReady

POOL = "default_pool"
AT_ONCE = 1000


async def admit(context: Context, *, task_status: TaskStatus[None]) -> None:
    """For ever. A daemon that died in the middle leaves nothing half done: admission is one transaction."""
    bell, backoff = context.bells.of[Work.ADMIT], Backoff()
    task_status.started()
    while True:
        await bell.wait(context.settings.sweep_s)
        try:
            while await admitted(context):
                pass
            backoff.reset()
        except UnavailableError as error:
            context.outages.begin(error)
            await backoff.pause()


async def admitted(context: Context) -> bool:
    """Admit what fits, once; whether there may be more."""
    applied = await context.tell([TasksReady(pool=POOL, limit=AT_ONCE)])
    return applied.effects >= AT_ONCE
