"""Admit waiting tasks to their pools, as soon as there are any and room for them."""

from collections.abc import Sequence

from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.duties.run_on_signal import run_on_signal
from tidegate.daemon.work import Work
from tidegate.schemas.message import TasksReady
from tidegate.schemas.queries import pools

AT_ONCE = 1000


async def admit(context: Context, *, task_status: TaskStatus[None]) -> None:
    """For ever. A daemon that died in the middle leaves nothing half done: each admission is one transaction."""
    turns = Turns()
    task_status.started()

    async def look() -> bool:
        for pool in turns.of(await context.database.ask(pools.in_demand)):
            if not await has_room(context):
                break
            if await admitted(context, pool):
                turns.had(pool)
        return False

    await run_on_signal(context, Work.ADMIT, look)


class Turns:
    """Who takes first of what all pools share: the one whose last turn is longest ago, of those that never had one the first."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._turn = 0

    def of(self, pools: Sequence[str]) -> list[str]:
        return sorted(pools, key=lambda pool: self._last.get(pool, 0))

    def had(self, pool: str) -> None:
        self._turn += 1
        self._last[pool] = self._turn


async def has_room(context: Context) -> bool:
    """Whether one more task may be active. If not, the next that may is the first pool's."""
    limit = context.settings.parallelism
    return not limit or await context.database.ask(pools.active) < limit


async def admitted(context: Context, pool: str) -> bool:
    """Admit what fits into a pool, once; whether anything did. Where there is room for more, the bell rings again."""
    settings = context.settings
    ready = TasksReady(pool=pool, limit=AT_ONCE, parallelism=settings.parallelism, fair_after_s=settings.fair_after_s)
    return (await context.submit_messages([ready])).effects > 0
