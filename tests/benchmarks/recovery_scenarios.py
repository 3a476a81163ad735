"""Scenario M: how long it takes until all goes on when a daemon or Postgres has ended."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter
from typing import Any

import anyio
import asyncpg
import msgspec

from tests.benchmarks import peer
from tests.benchmarks.bench import Bench, bench, repeated
from tests.benchmarks.event_scenarios import DATASETS, NEWEST_EVENT, QUEUED, steadily
from tests.benchmarks.figures import Figure, duration
from tidegate.daemon.standalone.daemon import Daemon
from tidegate.events import Publisher

LEASES = "SELECT count(*) FROM lease WHERE NOT halted"
OWNED = "SELECT count(*) FROM lease JOIN job ON job.id = lease.owner WHERE job.pid = $1 AND NOT halted"
LEASE_TTL_S = 10


async def m(repeat: int) -> list[Figure]:
    """Two daemons under 1,000 events/s: one is killed, or told to stop; then Postgres crashes."""
    async with _at_work() as (ready, other):
        killed = await repeated(repeat, partial(_taken_over_s, ready, other, ready.daemon.kill))
        stopped = await repeated(repeat, partial(_taken_over_s, ready, other, ready.daemon.stop))
        crashed = await repeated(repeat, partial(_first_commit_s, ready))
    return [
        duration("M", "kill -9 → the other daemon has all leases", killed, peer.NONE, LEASE_TTL_S + 3),
        duration("M", "SIGTERM → the other daemon has all leases", stopped, peer.NONE, 3),
        duration("M", "Postgres answers after a crash → first commit", crashed, peer.NONE, 5),
    ]


@asynccontextmanager
async def _at_work() -> AsyncIterator[tuple[Bench, Daemon]]:
    async with (
        bench(QUEUED, DATASETS) as ready,
        ready.another("other") as other,
        Publisher(ready.kafka.bootstrap, source="bench", timeout_s=60) as publisher,
        anyio.create_task_group() as tg,
    ):
        tg.start_soon(steadily, publisher)
        yield ready, other
        tg.cancel_scope.cancel()


async def _taken_over_s(ready: Bench, other: Daemon, end: Callable[[], Coroutine[Any, Any, None]]) -> float:
    """Both have their share before, and the one that ended is started again after."""
    await ready.until_balanced(2)
    leases = await ready.value(LEASES)
    began_at = perf_counter()
    async with anyio.create_task_group() as tg:
        tg.start_soon(end)
        ended_at = await ready.until(OWNED, leases, other.pid, every_s=0.01)
    await ready.daemon.start()
    return ended_at - began_at


async def _first_commit_s(ready: Bench) -> float:
    await anyio.sleep(3)
    await ready.postgres.crash()
    await ready.postgres.start()
    began_at = perf_counter()
    connection = await asyncpg.connect(ready.postgres.dsn)
    try:
        again = msgspec.structs.replace(ready, connection=connection)
        return await again.until(NEWEST_EVENT, await again.value(NEWEST_EVENT) + 1, every_s=0.01) - began_at
    finally:
        await connection.close()
