"""Scenario L: a backfill of a million dates is created, and runs beside others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from time import perf_counter

from tests.benchmarks import peer
from tests.benchmarks.bench import Bench, bench
from tests.benchmarks.event_scenarios import ONE, SAMPLES
from tests.benchmarks.figures import Figure, duration, percentiles, rate
from tests.benchmarks.pending_scenarios import latency_of_one_ms
from tidegate.daemon import backfills
from tidegate.daemon.permissions import Caller, Role
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.settings import environment, read
from tidegate.events import Publisher
from tidegate.schemas.backfill import BackfillSpec

DATES = 1_000_000
FIRST = datetime(2020, 1, 1, tzinfo=UTC)
MOST_S = 0.1
USER = Caller("bench", Role.ADMIN)

PAST = """
from tidegate import cron

with Dag("paced", schedule=cron("* * * * *"), catchup=False) as dag:
    dag.command("work", ["sleep", "600"])
with Dag("flat_out", schedule=cron("* * * * *"), catchup=False) as dag:
    dag.empty("noop")
"""
"""A backfill is paced by its tasks; without any it plans as fast as it can."""

AT_WORK = "SELECT count(*) FROM task_instance WHERE state = 'running'"
RUNS = 10
PLANNED = "SELECT dates FROM backfill ORDER BY id DESC LIMIT 1"


async def l(repeat: int) -> list[Figure]:  # noqa: E743 - the letter of the scenario
    """Creation, then the latency of another DAG while the runs of the backfill have tasks, or none."""
    created: list[float] = []
    calm, paced, flat_out, planned = [], [], [], []
    async with bench(ONE + PAST, 3) as ready, Publisher(ready.kafka.bootstrap, source="bench") as publisher:
        look = partial(_latencies, ready, publisher)
        async with connect(ready.postgres.dsn, writer=USER.username) as database:
            for _ in range(repeat + 1):
                calm.append(await look())
                async with _backfill(ready, database, "paced", created):
                    await ready.until(AT_WORK, RUNS, every_s=0.5)
                    paced.append(await look())
                async with _backfill(ready, database, "flat_out", created):
                    before, began_at = await ready.value(PLANNED), perf_counter()
                    flat_out.append(await look())
                    planned.append((await ready.value(PLANNED) - before) / (perf_counter() - began_at))
    wanted = ((50, peer.NONE, None), (99, peer.NONE, None))
    return [
        duration("L", f"a backfill of {DATES:,} dates is created", created[2:], peer.NONE, MOST_S),
        *percentiles("L", "A, calm", calm[1:], wanted),
        *percentiles("L", "A while ten of its runs are at work", paced[1:], wanted),
        *percentiles("L", "A while its runs have no work", flat_out[1:], wanted),
        rate("L", "dates of these", "dates/s", planned[1:], peer.NONE, None),
    ]


async def _latencies(ready: Bench, publisher: Publisher) -> list[float]:
    return [await latency_of_one_ms(ready, publisher) for _ in range(SAMPLES)]


@asynccontextmanager
async def _backfill(ready: Bench, database: Database, dag_id: str, created: list[float]) -> AsyncIterator[None]:
    """A backfill that is at work; it is cancelled in the end."""
    last = FIRST + timedelta(minutes=DATES - 1)
    settings, began_at = read(environment(ready.settings)), perf_counter()
    row = await backfills.create(database, settings, USER, BackfillSpec(dag_id=dag_id, start_date=FIRST, end_date=last))
    created.append(perf_counter() - began_at)
    await ready.until(PLANNED, 1)
    yield
    await backfills.cancel(database, settings, USER, row.id, kills=True)
    await ready.until("SELECT count(*) FROM backfill WHERE run_end_date IS NOT NULL AND id = $1", 1, row.id)
    await database.pool.execute("DELETE FROM dag_run WHERE backfill_id IS NOT NULL")
