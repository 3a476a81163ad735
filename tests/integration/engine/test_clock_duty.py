"""The clock of real daemons, on real time: it acts when something about pending events is due, and once if several daemons do."""

import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import uuid4

import anyio
import pytest
from structlog.testing import capture_logs

from tests.shapes import spec
from tidegate.daemon.context import Context
from tidegate.daemon.duties import clock
from tidegate.daemon.leases import HeldLeases, register, renew
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.settings import Settings
from tidegate.daemon.wake import Signals
from tidegate.schemas.conditions.condition import AllOf, DatasetRef, InputDeadlineSpec, Timing
from tidegate.schemas.dag import DagSpec, ParsedFile
from tidegate.schemas.queries.leases import Job, Terms
from tidegate.schemas.wire.event import DatasetUpdated, EventId

BOTH = AllOf((DatasetRef("s://a"), DatasetRef("s://never")))


@pytest.fixture
async def other(dsn: str) -> AsyncIterator[Database]:
    async with connect(dsn) as database:
        yield database


async def daemon(database: Database, dsn: str) -> Context:
    """One that has its share of the clock."""
    settings = Settings(postgres_dsn=dsn, kafka_servers="localhost:1")
    held_leases = HeldLeases(Job(uuid4(), settings.host, os.getpid(), "test", Terms(lease_ttl_s=settings.lease_ttl_s)))
    context = Context(
        settings=settings, database=database, held_leases=held_leases, signals=Signals(), outages=Outages(), backends={}
    )
    await register(database, clock.duties())
    await renew(database, held_leases)
    return context


async def wait_for(context: Context, *specs: DagSpec) -> None:
    """These DAGs are there, and the first event that they wait for."""
    await context.submit_messages([ParsedFile(path="dags.py", digest="1", dags=specs)])
    await context.submit_messages([DatasetUpdated(uri="s://a")], [EventId("test", "1")])


async def test_the_clock_sleeps_until_a_deadline_of_inputs_and_says_that_it_was_missed(database: Database, dsn: str) -> None:
    context = await daemon(database, dsn)
    timing = Timing(deadline=InputDeadlineSpec(after_s=0.2, fallback="alert"))
    await wait_for(context, spec("t!", schedule=BOTH, timing=timing))

    with capture_logs() as logs:
        first = await clock.submit_due(context)
        await anyio.sleep(first)
        rest = await clock.submit_due(context)

    assert (0 < first <= 0.2, rest) == (True, clock.MAX_SLEEP_S)
    assert [(line["dag_id"], line["fallback"]) for line in logs if line["event"] == "inputs_missed_deadline"] == [("d", "alert")]


async def test_two_daemons_make_one_run_of_each_deadline(database: Database, other: Database, dsn: str) -> None:
    mine, theirs = await daemon(database, dsn), await daemon(other, dsn)
    timing = Timing(deadline=InputDeadlineSpec(after_s=0.3), min_interval_s=60.0)
    await wait_for(mine, *(spec("t!", dag_id=f"d{number}", schedule=BOTH, timing=timing) for number in range(40)))

    ends = datetime.now(UTC).timestamp() + 2
    async with anyio.create_task_group() as tg:
        for context in (mine, theirs):
            tg.start_soon(_tick_until, context, ends)

    runs = await database.pool.fetch("SELECT dag_id, count(*) FROM dag_run GROUP BY dag_id")
    assert sorted((row[0], row[1]) for row in runs) == sorted((f"d{number}", 1) for number in range(40))
    assert await database.pool.fetchval("SELECT count(*) FROM dagrun_dataset_event") == 40
    assert await database.pool.fetchval("SELECT count(*) FROM dataset_dag_run_queue") == 0


async def _tick_until(context: Context, ends: float) -> None:
    """The shards change hands meanwhile."""
    while datetime.now(UTC).timestamp() < ends:
        await renew(context.database, context.held_leases)
        await anyio.sleep(min(await clock.submit_due(context), 0.1))
