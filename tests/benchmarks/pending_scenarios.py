"""Scenario P: one DAG has many pending events, and the others go on."""

import os
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import perf_counter

import anyio
import asyncpg
import msgspec

from tests.benchmarks import peer
from tests.benchmarks.bench import Bench, bench
from tests.benchmarks.event_scenarios import AT_ONCE, NEWER_EVENTS, NEWEST_EVENT, ONE, SAMPLES
from tests.benchmarks.figures import Figure, peak, percentiles, rate
from tidegate.daemon.settings import environment
from tidegate.events import Publisher

PENDING = int(os.environ.get("PENDING", "300000"))
OTHERS = 200

HOT = f"""
with Dag("hot", schedule=Dataset("bench://hot"), on_paused="keep") as dag:
    dag.empty("noop")

for number in range({OTHERS}):
    with Dag(f"other_{{number}}", schedule=Dataset(f"bench://other/{{number}}"), max_active_runs=100) as dag:
        dag.empty("noop")
"""

CONSUMED = "SELECT count(*) FROM dagrun_dataset_event WHERE dag_id = 'hot' AND dataset_event_id > $1"
ENDED = "SELECT count(*) FROM dag_run WHERE dag_id = 'consumer' AND state = 'success'"
OUT_OF_ORDER = """
    SELECT count(*) FROM (
        SELECT min(dataset_event_id) AS first, lag(max(dataset_event_id)) OVER (ORDER BY dag_run_id) AS last_before
        FROM dagrun_dataset_event WHERE dag_id = 'hot' GROUP BY dag_run_id
    ) AS run WHERE first < last_before
"""


async def p(repeat: int) -> list[Figure]:
    """Many events of a paused DAG arrive, then it consumes them. 200 other DAGs get events before and meanwhile."""
    taken, consumed, calm, beside, peaks = [], [], [], [], []
    async with bench(ONE + HOT, OTHERS + 2) as ready, Publisher(ready.kafka.bootstrap, source="bench") as publisher:
        for _ in range(repeat):
            calm.append(await _calm(ready, publisher))
            newest = await ready.value(NEWEST_EVENT)
            taken.append(await _taken_per_s(ready, newest))
            during: list[float] = []
            async with _another_connection(ready) as looking, anyio.create_task_group() as tg:
                tg.start_soon(_others, looking, publisher, during)
                consumed.append(await _consumed_per_s(ready, newest))
                tg.cancel_scope.cancel()
            beside.append(during)
            peaks.append(await _peak_mib(ready))
        if wrong := await ready.value(OUT_OF_ORDER):
            raise AssertionError(f"{wrong} runs consumed events out of order")
    return [
        rate("P", f"{PENDING:,} events of one paused DAG taken", "events/s", taken, peer.NONE, None),
        rate("P", "and consumed by its runs", "events/s", consumed, peer.NONE, None),
        *_latencies("A of another DAG, calm", calm),
        *_latencies("A of another DAG meanwhile", beside),
        peak("P", "largest resident memory of the daemon", peaks),
    ]


def _latencies(what: str, rounds: Sequence[list[float]]) -> list[Figure]:
    return percentiles("P", what, rounds, ((50, peer.NONE, None), (99, peer.NONE, None)))


async def _taken_per_s(ready: Bench, newest: int) -> float:
    """The backlog is made while no daemon runs."""
    await ready.daemon.stop()
    await ready.connection.execute("UPDATE dag SET is_paused = true WHERE dag_id = 'hot'")
    async with Publisher(ready.kafka.bootstrap, source="bench", timeout_s=60) as publisher:
        for start in range(0, PENDING, AT_ONCE):
            async with anyio.create_task_group() as tg:
                for number in range(start, min(start + AT_ONCE, PENDING)):
                    tg.start_soon(
                        partial(publisher.dataset_updated, "bench://hot", {"rows": number}, event_id=f"{newest}-{number}")
                    )
    await ready.daemon.start()
    began_at = await ready.until(NEWEST_EVENT, newest + 1, every_s=0.005)
    already = await ready.value(NEWER_EVENTS, newest)
    return (PENDING - already) / (await ready.until(NEWER_EVENTS, PENDING, newest, every_s=0.2, within_s=1200) - began_at)


async def _consumed_per_s(ready: Bench, newest: int) -> float:
    command = str(Path(sys.executable).with_name("tidegate"))
    await anyio.run_process([command, "dags", "unpause", "hot"], env={**os.environ, **environment(ready.settings)})
    began_at, already = perf_counter(), await ready.value(CONSUMED, newest)
    return (PENDING - already) / (await ready.until(CONSUMED, PENDING, newest, every_s=0.2, within_s=1200) - began_at)


async def _peak_mib(ready: Bench) -> float:
    """The daemon of a round is started with it."""
    pid = await ready.value("SELECT pid FROM live_job")
    status = await anyio.Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024


async def _calm(ready: Bench, publisher: Publisher) -> list[float]:
    """With the events of the others, so that only those of the hot DAG make a difference."""
    async with anyio.create_task_group() as tg:
        tg.start_soon(_events_of_others, publisher)
        found = [await latency_of_one_ms(ready, publisher) for _ in range(SAMPLES)]
        tg.cancel_scope.cancel()
    return found


async def _others(ready: Bench, publisher: Publisher, found: list[float]) -> None:
    async with anyio.create_task_group() as tg:
        tg.start_soon(_events_of_others, publisher)
        while True:
            found.append(await latency_of_one_ms(ready, publisher))


async def latency_of_one_ms(ready: Bench, publisher: Publisher) -> float:
    """Event acknowledged → run of its own DAG finished."""
    await anyio.sleep(0.02)
    before = await ready.value(ENDED)
    await publisher.dataset_updated("bench://one")
    acknowledged_at = perf_counter()
    return (await ready.until(ENDED, before + 1) - acknowledged_at) * 1000


@asynccontextmanager
async def _another_connection(ready: Bench) -> AsyncIterator[Bench]:
    connection = await asyncpg.connect(ready.postgres.dsn)
    try:
        yield msgspec.structs.replace(ready, connection=connection)
    finally:
        await connection.close()


async def _events_of_others(publisher: Publisher) -> None:
    """A hundred per second."""
    number = 0
    while True:
        await publisher.dataset_updated(f"bench://other/{number % OTHERS}")
        number += 1
        await anyio.sleep(0.01)
