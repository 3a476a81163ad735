"""A daemon that starts while another one looks for dead owners is not taken for dead."""

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import anyio
import asyncpg
import pytest

from tests.integration.engine.chains import command, started
from tests.integration.engine.world import World, utc
from tidegate.daemon.postgres.database import Database, connect
from tidegate.schemas.queries import leases, submissions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import CLOCK, Group, Job, LeaseSpec

PAUSE = 7
"""The advisory lock that a query of the live daemons waits for."""

PAUSING = f"""
    CREATE FUNCTION pause() RETURNS boolean LANGUAGE plpgsql VOLATILE COST 0.0001 AS $$
    BEGIN
        PERFORM pg_advisory_lock_shared({PAUSE});
        PERFORM pg_advisory_unlock_shared({PAUSE});
        RETURN true;
    END $$;
    ALTER VIEW live_job RENAME TO all_live_job;
    CREATE VIEW live_job AS SELECT * FROM all_live_job WHERE pause();
"""
WAITS = f"SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = {PAUSE} AND NOT granted)"
DEAD, OLD, YOUNG = (Job(uuid4(), name, 1, "test") for name in ("dead", "old", "young"))
WITHIN_S = 30.0


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with connect(dsn) as database:
        yield database


@pytest.fixture
async def other(dsn: str, database: Database) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    """Holds up each query of the live daemons until it is told to let them go on."""
    await database.run(_start, OLD)
    await database.run(_start, DEAD)
    connection = await asyncpg.connect(dsn)
    await connection.execute("UPDATE job SET heartbeat_at = heartbeat_at - interval '1 hour' WHERE id = $1", DEAD.id)
    await connection.execute(PAUSING)
    await connection.execute("SELECT pg_advisory_lock($1)", PAUSE)
    yield connection
    await connection.close()


async def _start(db: Db, job: Job) -> None:
    await leases.renew(db, job)


async def _claim(db: Db, job: Job) -> list[str]:
    return [lease.key for lease in await leases.claim(db, job.id, {Group(CLOCK, ""): 10})]


async def young_takes(other: "asyncpg.Connection[asyncpg.Record]", change: str) -> None:
    """A daemon starts, and takes over what `change` says, after the query has begun; then the query goes on."""
    while not await other.fetchval(WAITS):
        await anyio.sleep(0.02)
    async with other.transaction():
        await other.execute("INSERT INTO job (id, host, pid, version, settings) VALUES ($1, 'young', 1, 'test', '{}')", YOUNG.id)
        await other.execute(change, YOUNG.id)
    await other.execute("SELECT pg_advisory_unlock($1)", PAUSE)


async def test_the_lease_that_it_claims_meanwhile_stays_its_own(
    database: Database, other: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await database.run(leases.create_leases, [LeaseSpec(CLOCK, "0"), LeaseSpec(CLOCK, "1")])
    await other.execute("UPDATE lease SET owner = $1", DEAD.id)
    claimed: list[str] = []

    async def claim() -> None:
        claimed.extend(await database.run(_claim, OLD))

    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tg:
            tg.start_soon(claim)
            await young_takes(other, "UPDATE lease SET owner = $1, epoch = epoch + 1 WHERE key = '0'")

    assert claimed == ["1"]
    assert await other.fetchval("SELECT owner FROM lease WHERE key = '0'") == YOUNG.id


async def test_the_submission_that_it_takes_over_meanwhile_stays_its_own(
    database: Database, other: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    world = World(database, utc(2024, 5, 1, 12, 10))
    await started(world, command("a"), command("b"))
    await world.admit()
    attempts = await database.run(submissions.claim_intents, DEAD.id, "here", "command", 10)
    taken: list[UUID] = []

    async def take_over() -> None:
        found = await database.run(submissions.claim_abandoned, OLD.id, "here", "command", None, [])
        taken.extend(claimed.submission_id for claimed in found)

    mine, *rest = sorted(attempt.submission_id for attempt in attempts)
    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tg:
            tg.start_soon(take_over)
            await young_takes(other, f"UPDATE submission SET owner = $1 WHERE submission_id = '{mine}'")

    assert taken == rest
