"""Scenarios about events: one function each says what happens, and what is measured.

A no-op task is an `empty` one. Servers are real, with fsync on; the load and the looking share the machine with the daemon.
"""

import random
from functools import partial
from time import perf_counter
from uuid import uuid4

import anyio

from tests.benchmarks import peer
from tests.benchmarks.bench import Bench, bench, repeated
from tests.benchmarks.figures import Figure, duration, percentiles, rate
from tidegate.events import Publisher

SAMPLES = 200
CONSUMERS = 1000
EVENTS = 100_000
DATASETS = 1000
AT_ONCE = 2000
STEADY_PER_S = 1000

FAN_OUT = f"""
from tidegate import Dag, Dataset

for number in range({CONSUMERS}):
    with Dag(f"consumer_{{number}}", schedule=Dataset("bench://fan"), max_active_runs=1000) as dag:
        dag.empty("noop")
"""

ONE = """
from tidegate import Dag, Dataset

with Dag("consumer", schedule=Dataset("bench://one"), max_active_runs=1000) as dag:
    dag.empty("noop")
"""

QUEUED = f"""
from tidegate import Dag, Dataset

never = Dataset("bench://never")
for number in range({DATASETS}):
    with Dag(f"consumer_{{number}}", schedule=Dataset(f"bench://{{number}}") & never) as dag:
        dag.empty("noop")
"""

JOINED, EACH = 100, 10

FAN_IN = f"""
from tidegate import Dag, Dataset

for number in range({JOINED}):
    datasets = [Dataset(f"bench://{{of}}") for of in range(number * {EACH}, (number + 1) * {EACH})]
    with Dag(f"joined_{{number}}", schedule=datasets, max_active_runs=1000) as dag:
        dag.empty("noop")
"""

SUCCEEDED = "SELECT count(*) FROM dag_run WHERE id > $1 AND state = 'success'"
NEWER_RUNS = "SELECT count(*) FROM dag_run WHERE id > $1"
NEWEST_RUN = "SELECT coalesce(max(id), 0) FROM dag_run"
QUEUED_ROWS = "SELECT count(*) FROM dataset_dag_run_queue"
NEWEST_EVENT = "SELECT coalesce(max(id), 0) FROM dataset_event"
"""By the index of a table of which nothing is ever dead: looking must not cost more the longer a transaction is held open."""
NEWER_EVENTS = "SELECT count(*) FROM dataset_event WHERE id > $1"


async def a(repeat: int) -> list[Figure]:
    """Latency of an idle system: event acknowledged by Kafka → run committed and visible, its no-op task finished."""
    async with bench(ONE, 1) as ready, Publisher(ready.kafka.bootstrap, source="bench") as publisher:
        rounds = [[await latency_ms(ready, publisher) for _ in range(SAMPLES)] for _ in range(repeat + 1)][1:]
    wanted = ((50, peer.CREATED_MS, 4), (95, peer.CREATED_P95_MS, None), (99, peer.NONE, 12))
    return percentiles("A", "event → run and its first task finished", rounds, wanted)


async def a2(repeat: int) -> list[Figure]:
    """The same while 1,000 other events per second are taken, each queued for a consumer."""
    async with (
        bench(ONE + QUEUED, 1 + DATASETS) as ready,
        Publisher(ready.kafka.bootstrap, source="bench") as publisher,
        anyio.create_task_group() as tg,
    ):
        tg.start_soon(steadily, publisher)
        look = partial(latency_ms, ready, publisher, every_s=0.001)
        rounds = [[await look() for _ in range(SAMPLES)] for _ in range(repeat + 1)][1:]
        tg.cancel_scope.cancel()
    wanted = ((50, peer.NONE, 10), (95, peer.NONE, None), (99, peer.NONE, 50))
    return percentiles("A2", f"A under {STEADY_PER_S:,} events/s", rounds, wanted)


async def steadily(publisher: Publisher) -> None:
    """As many per second as is said, in the mean: what was missed while others worked is made up for."""
    began_at, sent = perf_counter(), 0
    async with anyio.create_task_group() as tg:
        while True:
            await anyio.sleep(0.005)
            for number in range(sent, wanted := int((perf_counter() - began_at) * STEADY_PER_S)):
                tg.start_soon(publisher.dataset_updated, f"bench://{number % DATASETS}")
            sent = wanted


async def latency_ms(ready: Bench, publisher: Publisher, every_s: float = 0.0002, succeeded: str = SUCCEEDED) -> float:
    """The no-op task ends in the transaction that creates its run, and with it the run: all of it becomes visible at once."""
    await anyio.sleep(random.uniform(0.02, 0.06))
    before = await ready.value(NEWEST_RUN)
    await publisher.dataset_updated("bench://one")
    acknowledged_at = perf_counter()
    await anyio.sleep(0.002)
    return (await ready.until(succeeded, 1, before, every_s=every_s) - acknowledged_at) * 1000


async def b(repeat: int) -> list[Figure]:
    """Fan-out: one event, many consumers of one no-op task each → all runs exist and have succeeded."""
    async with bench(FAN_OUT, CONSUMERS) as ready, Publisher(ready.kafka.bootstrap, source="bench") as publisher:
        rates = await repeated(repeat, partial(_fan_out_per_s, ready, publisher))
    return [rate("B", "runs created and succeeded", "runs/s", rates, peer.FAN_OUT_RUNS_PER_S, 8000)]


async def _fan_out_per_s(ready: Bench, publisher: Publisher) -> float:
    await anyio.sleep(1.0)
    before = await ready.value(NEWEST_RUN)
    await publisher.dataset_updated("bench://fan")
    acknowledged_at = perf_counter()
    return CONSUMERS / (await ready.until(SUCCEEDED, CONSUMERS, before) - acknowledged_at)


async def c(repeat: int) -> list[Figure]:
    """Fan-in: 100 DAGs wait for events of 10 datasets each; the events come in any order → all runs exist after the last one."""
    async with bench(FAN_IN, JOINED) as ready, Publisher(ready.kafka.bootstrap, source="bench") as publisher:
        times = await repeated(repeat, partial(_fan_in_s, ready, publisher))
    return [duration("C", "last of 1,000 events → runs of 100 DAGs", times, peer.FAN_IN_S, 0.2)]


async def _fan_in_s(ready: Bench, publisher: Publisher) -> float:
    await anyio.sleep(1.0)
    before = await ready.value(NEWEST_RUN)
    numbers = list(range(JOINED * EACH))
    random.shuffle(numbers)
    async with anyio.create_task_group() as tg:
        for number in numbers:
            tg.start_soon(publisher.dataset_updated, f"bench://{number}")
    acknowledged_at = perf_counter()
    return await ready.until(NEWER_RUNS, JOINED, before, every_s=0.001) - acknowledged_at


async def d(repeat: int) -> list[Figure]:
    """Ingest: events from Kafka, durable, deduplicated, queued for one consumer each, by one daemon with a backlog."""
    async with bench(QUEUED, DATASETS) as ready:
        rates = await repeated(repeat, partial(ingest_per_s, ready))
    return [rate("D", "events taken and queued", "events/s", rates, peer.INGEST_PER_S, 30_000)]


async def ingest_per_s(ready: Bench) -> float:
    """The backlog is made while no daemon runs; the clock runs from the first event taken to the last."""
    await ready.daemon.stop()
    queued, newest = await ready.value(QUEUED_ROWS), await ready.value(NEWEST_EVENT)
    await make_backlog(ready)
    await ready.daemon.start()
    per_s = await taken_per_s(ready, newest)
    if await ready.value(QUEUED_ROWS) != queued + EVENTS:
        raise AssertionError("not every event is in the queue")
    return per_s


async def taken_per_s(ready: Bench, newest: int) -> float:
    """Of the backlog, from the first after the `newest` of before.

    That the newest number is high enough says that it is time to count: a batch that was undone has used up numbers, and one with
    lower numbers may be committed later.
    """
    began_at = await ready.until(NEWEST_EVENT, newest + 1, every_s=0.005)
    already = await ready.value(NEWER_EVENTS, newest)
    await ready.until(NEWEST_EVENT, newest + EVENTS, every_s=0.02)
    ended_at = await ready.until(NEWER_EVENTS, EVENTS, newest, every_s=0.02)
    return (EVENTS - already) / (ended_at - began_at)


async def make_backlog(ready: Bench) -> None:
    async with Publisher(ready.kafka.bootstrap, source="bench", timeout_s=60) as publisher:
        for start in range(0, EVENTS, AT_ONCE):
            async with anyio.create_task_group() as tg:
                for number in range(start, start + AT_ONCE):
                    send = partial(
                        publisher.dataset_updated, f"bench://{number % DATASETS}", {"rows": number}, event_id=str(uuid4())
                    )
                    tg.start_soon(send)
