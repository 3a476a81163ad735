"""Scenario N: the same work for one daemon, for two and for four."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import anyio

from tests.benchmarks import peer
from tests.benchmarks.bench import Bench, bench, repeated
from tests.benchmarks.event_scenarios import DATASETS, NEWEST_EVENT, QUEUED, make_backlog, taken_per_s
from tests.benchmarks.figures import Figure, rate
from tests.benchmarks.task_scenarios import PARALLEL, prepare_wide, tasks_per_s
from tidegate.daemon.standalone.daemon import Daemon

NUMBERS = (1, 2, 4)

LEAST_SHARE = """
SELECT 100 * $1 * min(coalesce(done, 0)) / sum(done)
FROM job LEFT JOIN (SELECT owner, count(*) AS done FROM submission WHERE created_at > $2 GROUP BY owner) AS hand ON owner = job.id
"""


async def n(repeat: int) -> list[Figure]:
    """Tasks on an instant backend, and a backlog of events, for 1, 2 and 4 daemons that share what cores there are."""
    return [figure for daemons in NUMBERS for figure in (*await _tasks(repeat, daemons), await _events(repeat, daemons))]


async def _tasks(repeat: int, daemons: int) -> list[Figure]:
    async with bench(PARALLEL, 100, instant=True, prepare=prepare_wide) as ready, _daemons(ready, daemons):
        await ready.until_balanced(daemons)
        began_at = await ready.connection.fetchval("SELECT clock_timestamp()")
        rates = await repeated(repeat, partial(tasks_per_s, ready, runs=100, tasks=1000))
        least = float(await ready.connection.fetchval(LEAST_SHARE, daemons, began_at))
    return [
        rate("N", f"{_named(daemons)}: 100 DAGs, 10 tasks side by side", "tasks/s", rates, peer.NONE, None),
        rate("N", f"{_named(daemons)}: attempts of the least busy one, of its share", "%", [least], peer.NONE, None),
    ]


async def _events(repeat: int, daemons: int) -> Figure:
    async with bench(QUEUED, DATASETS) as ready, _daemons(ready, daemons) as all_:
        rates = await repeated(repeat, partial(_ingest_per_s, ready, all_))
    return rate("N", f"{_named(daemons)}: events taken and queued", "events/s", rates, peer.NONE, None)


async def _ingest_per_s(ready: Bench, daemons: Sequence[Daemon]) -> float:
    """As in D, but with more daemons, which start together."""
    await _each(daemons, "stop")
    newest = await ready.value(NEWEST_EVENT)
    await make_backlog(ready)
    async with _starting(daemons):
        return await taken_per_s(ready, newest)


@asynccontextmanager
async def _starting(daemons: Sequence[Daemon]) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tg:
        tg.start_soon(_each, daemons, "start")
        yield


async def _each(daemons: Sequence[Daemon], what: str) -> None:
    async with anyio.create_task_group() as tg:
        for daemon in daemons:
            tg.start_soon(getattr(daemon, what))


@asynccontextmanager
async def _daemons(ready: Bench, daemons: int) -> AsyncIterator[Sequence[Daemon]]:
    """The one that is there, and more."""
    async with AsyncExitStack() as stack:
        more = [await stack.enter_async_context(ready.another(f"daemon-{number}")) for number in range(2, daemons + 1)]
        yield [ready.daemon, *more]


def _named(daemons: int) -> str:
    return "1 daemon" if daemons == 1 else f"{daemons} daemons"
