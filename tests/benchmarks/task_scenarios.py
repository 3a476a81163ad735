"""Scenarios about tasks that a backend runs, which has done everything as soon as it is asked."""

from functools import partial
from time import perf_counter

import anyio

from tests.benchmarks import peer
from tests.benchmarks.bench import Bench, Connection, bench, repeated
from tests.benchmarks.figures import Figure, rate
from tidegate.events import Publisher

PARALLEL = """
from tidegate import Dag, Dataset

for number in range(100):
    with Dag(f"parallel_{number}", schedule=Dataset("bench://go"), max_active_runs=1000) as dag:
        for task in range(10):
            dag.command(f"t{task}", ["instant"], pool="wide")
"""

CHAIN = """
from tidegate import Dag, Dataset

for number in range(100):
    with Dag(f"chain_{number}", schedule=Dataset("bench://go"), max_active_runs=1000) as dag:
        last = dag.command("t0", ["instant"], pool="wide")
        for task in range(1, 10):
            last = last >> dag.command(f"t{task}", ["instant"], pool="wide")
"""

LAYERS = """
from tidegate import Dag, Dataset

with Dag("layers", schedule=Dataset("bench://go"), max_active_runs=1000, max_active_tasks=100_000) as dag:
    above = []
    for layer in range(100):
        tasks = [dag.command(f"t{layer}_{number}", ["instant"], pool="wide") for number in range(100)]
        for task in above and tasks:
            above >> task
        above = tasks
"""

WAITING = """
from tidegate import Dag, Dataset

for number in range({runs}):
    with Dag(f"waiting_{{number}}", schedule=Dataset("bench://go"), max_active_runs=1000, max_active_tasks=100_000) as dag:
        for task in range(1000):
            dag.command(f"t{{task}}", ["instant"], pool="narrow")
"""

NARROW = "INSERT INTO pool (name, slots) VALUES ('narrow', 0)"
OPEN_NARROW = "UPDATE pool SET slots = $1 WHERE name = 'narrow'"
WAITING_TASKS = "SELECT count(*) FROM task_instance WHERE state = 'scheduled'"
DONE_TASKS = "SELECT -sum(unfinished) FROM dag_run"
TURNED_OVER = 2000
SLOTS = 50

WIDE = "INSERT INTO pool (name, slots) VALUES ('wide', -1)"
NEWEST_RUN = "SELECT coalesce(max(id), 0) FROM dag_run"
SUCCEEDED = "SELECT count(*) FROM dag_run WHERE id > $1 AND state = 'success'"


async def e(repeat: int) -> list[Figure]:
    """100 DAGs of 10 tasks each, side by side and one after the other, on a backend that is done at once."""
    figures = []
    for what, file, beside, target in (
        ("10 tasks side by side", PARALLEL, peer.TASKS_PER_S, 8000),
        ("10 tasks in a chain", CHAIN, peer.CHAIN_PER_S, 6000),
    ):
        async with bench(file, 100, instant=True, prepare=prepare_wide) as ready:
            rates = await repeated(repeat, partial(tasks_per_s, ready, runs=100, tasks=1000))
        figures.append(rate("E", f"100 DAGs, {what}", "tasks/s", rates, beside, target))
    return figures


async def e2(repeat: int) -> list[Figure]:
    """One run of 10,000 tasks in 100 layers, each task after the whole layer before."""
    async with bench(LAYERS, 1, instant=True, prepare=prepare_wide) as ready:
        rates = await repeated(repeat, partial(tasks_per_s, ready, runs=1, tasks=10_000))
    return [rate("E2", "10,000 tasks in 100 layers", "tasks/s", rates, peer.NONE, 6000)]


async def w(repeat: int) -> list[Figure]:
    """Tasks that wait for a pool of 50 slots: how fast they get their turns when 10,000 wait, and when 100,000 do."""
    figures = []
    for waiting in (10_000, 100_000):
        async with bench(WAITING.format(runs=waiting // 1000), waiting // 1000, instant=True, prepare=_narrow) as ready:
            async with Publisher(ready.kafka.bootstrap, source="bench") as publisher:
                await publisher.dataset_updated("bench://go")
            await ready.until(WAITING_TASKS, waiting, every_s=0.2)
            rates = [await _turnover_per_s(ready) for _ in range(min(repeat + 1, waiting // TURNED_OVER - 1))][1:]
        figures.append(rate("W", f"50 slots, {waiting:,} tasks wait for them", "tasks/s", rates, peer.NONE, None))
    return figures


async def _narrow(connection: Connection) -> None:
    await connection.execute(NARROW)


async def _turnover_per_s(ready: Bench) -> float:
    """From opening the pool until a number of further tasks have had a slot; then it is closed again."""
    await anyio.sleep(1.0)
    before = await ready.value(DONE_TASKS)
    began_at = perf_counter()
    await ready.connection.execute(OPEN_NARROW, SLOTS)
    ended_at = await ready.until(DONE_TASKS, before + TURNED_OVER, every_s=0.02)
    done = await ready.value(DONE_TASKS) - before
    await ready.connection.execute(OPEN_NARROW, 0)
    return done / (ended_at - began_at)


async def prepare_wide(connection: Connection) -> None:
    await connection.execute(WIDE)


async def tasks_per_s(ready: Bench, *, runs: int, tasks: int) -> float:
    """From the acknowledgement of one event to the end of all the runs that it starts."""
    async with Publisher(ready.kafka.bootstrap, source="bench") as publisher:
        await anyio.sleep(1.0)
        before = await ready.value(NEWEST_RUN)
        await publisher.dataset_updated("bench://go")
        acknowledged_at = perf_counter()
    return tasks / (await ready.until(SUCCEEDED, runs, before, every_s=0.01) - acknowledged_at)
