"""Admit waiting tasks to their pools, as soon as there are any and room for them."""

from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.engine import Work
from tidegate.daemon.outage import Backoff
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.message import TasksReady
from tidegate.schemas.queries import pools

AT_ONCE = 1000


async def admit(context: Context, *, task_status: TaskStatus[None]) -> None:
    """For ever. A daemon that died in the middle leaves nothing half done: each admission is one transaction."""
    bell, backoff = context.bells.of[Work.ADMIT], Backoff()
    task_status.started()
    while True:
        await bell.wait(context.settings.sweep_s)
        try:
            for pool in await context.database.ask(pools.in_demand):
                while await admitted(context, pool):
                    pass
            backoff.reset()
        except UnavailableError as error:
            context.outages.begin(error)
            await backoff.pause()


async def admitted(context: Context, pool: str) -> bool:
    """Admit what fits into a pool, once; whether there may be more."""
    settings = context.settings
    ready = TasksReady(pool=pool, limit=AT_ONCE, parallelism=settings.parallelism, fair_after_s=settings.fair_after_s)
    applied = await context.tell([ready])
    return applied.effects >= AT_ONCE
