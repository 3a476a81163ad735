"""Admission: queues ready tasks while their pools have free slots."""

from collections.abc import Sequence
from functools import partial

from anyio.abc import TaskStatus

from tidegate.daemon.containment import NOT_CONTAINED
from tidegate.daemon.context import Context
from tidegate.daemon.duties.run_on_signal import run_on_signal
from tidegate.daemon.work import Work
from tidegate.schemas.error import LockedError
from tidegate.schemas.message import TasksReady
from tidegate.schemas.queries import pools

MAX_BATCH = 1000


async def admit(context: Context, *, task_status: TaskStatus[None]) -> None:
    """Admit tasks, for ever. Each admission is one transaction, so a crash leaves none half done."""
    task_status.started()
    await run_on_signal(context, Work.ADMIT, partial(admit_pools, context, PoolRotation()))


async def admit_pools(context: Context, rotation: "PoolRotation") -> bool:
    """Admit to each pool with waiting tasks once. Always False: an admission sets the signal for the next round.

    A fault of a pool is raised once the others were served.
    """
    errors: list[Exception] = []
    for pool in rotation.order(await context.database.autocommit(pools.in_demand)):
        if not await has_capacity(context):
            break
        try:
            if await admit_pool(context, pool):
                rotation.record(pool)
        except LockedError as error:
            errors.append(error)
        except NOT_CONTAINED:
            raise
        except Exception as error:  # noqa: BLE001 - any fault of a pool concerns this pool alone
            errors.append(error)
    if errors:
        raise errors[0]
    return False


class PoolRotation:
    """The order in which pools use the capacity they share: never served first, then by the time of the last admission."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._admissions = 0

    def order(self, pools: Sequence[str]) -> list[str]:
        return sorted(pools, key=lambda pool: self._last.get(pool, 0))

    def record(self, pool: str) -> None:
        """The pool was served last."""
        self._admissions += 1
        self._last[pool] = self._admissions


async def has_capacity(context: Context) -> bool:
    """Whether fewer tasks are active than `parallelism`; always when it is 0."""
    limit = context.settings.parallelism
    return not limit or await context.database.autocommit(pools.active) < limit


async def admit_pool(context: Context, pool: str) -> bool:
    """Admit up to `MAX_BATCH` tasks to a pool. Returns whether any was admitted."""
    settings = context.settings
    ready = TasksReady(pool=pool, limit=MAX_BATCH, parallelism=settings.parallelism, fair_after_s=settings.fair_after_s)
    return (await context.submit_messages([ready])).effects > 0
