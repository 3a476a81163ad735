"""Leases in Postgres: the order in which they are locked, and who halts a partition; and the markers of commits."""

from asyncio import create_task
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from msgspec.structs import replace

from tests.waiting import until_at_locks, until_ended_or_at_a_lock
from tidegate.daemon.leases import HeldLeases, register, renew
from tidegate.daemon.postgres.database import Database
from tidegate.schemas.error import FencedError
from tidegate.schemas.queries import inbox, leases, losses
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.inbox import OffsetMove
from tidegate.schemas.queries.leases import PARTITION, Group, Incident, Job, Lease, LeaseSpec, StepOver, Terms
from tidegate.schemas.queries.memory import Memory


async def release(db: Db, owner: UUID) -> Any:
    return await leases.release(db, owner, [Lease(PARTITION, key, 1, 0, halted=False) for key in ("b", "a")])


async def leave(db: Db, owner: UUID) -> Any:
    return await leases.leave(db, owner)


@pytest.mark.parametrize("known", ["", "b", "ab"])
@pytest.mark.parametrize(("held", "order"), [("b", "ab"), ("a", "ba")])
@pytest.mark.parametrize("meanwhile", [release, leave])
async def test_a_batch_and_the_renewal_of_leases_do_not_deadlock(
    database: Database, dsn: str, meanwhile: Callable[[Db, UUID], Awaitable[Any]], held: str, order: str, known: str
) -> None:
    """Also where it knows of some partitions only where their rows are."""
    owner = uuid4()
    await register(database, [LeaseSpec(PARTITION, key, 0) for key in "ab"])
    await database.run(leases.claim, owner, {Group(PARTITION, ""): 2})
    await database.pool.execute("UPDATE lease SET owner = owner WHERE key = 'a'")  # it comes last where none is asked for
    memory = Memory()
    places = await database.pool.fetch("SELECT key, ctid::text FROM lease WHERE strpos($1, key) > 0", known)
    memory.lease_ctids = {row["key"]: row["ctid"] for row in places}
    third = await asyncpg.connect(dsn)
    holding = third.transaction()
    await holding.start()
    await third.execute("SELECT FROM lease WHERE key = $1 FOR UPDATE", held)

    async def alone(work: Callable[[Db], Awaitable[Any]]) -> Any:
        """Once, and not again after a deadlock."""
        async with database.pool.acquire() as connection, connection.transaction():
            return await work(Db(connection, memory, await connection.fetchval("SELECT now()")))

    moves = [OffsetMove(key, 1, 0, 1) for key in order]
    keeping = create_task(alone(lambda db: meanwhile(db, owner)))
    await until_at_locks(database, 1)
    taking = create_task(alone(lambda db: inbox.record_batch(db, moves, [])))
    await until_at_locks(database, 2)
    await holding.rollback()

    await keeping
    with pytest.raises(Exception, match="another daemon"):
        await taking
    await third.close()


async def test_a_renewal_does_not_wait_for_a_batch(database: Database) -> None:
    held_leases = HeldLeases(Job(uuid4(), "here", 7, "test", Terms(lease_ttl_s=3600.0)))
    await register(database, [LeaseSpec(PARTITION, key, 0) for key in "ab"])
    await renew(database, held_leases)
    async with database.pool.acquire() as other, other.transaction():
        await other.execute("UPDATE lease SET next_offset = 1")
        await renew(database, held_leases)

        assert held_leases.of(PARTITION).keys() == {"a", "b"}


async def test_a_daemon_halts_only_a_partition_that_it_still_owns_where_it_read(database: Database) -> None:
    owner, key = uuid4(), "t/0"
    await register(database, [LeaseSpec(PARTITION, key, 0)])
    await database.run(leases.claim, owner, {Group(PARTITION, "t"): 1})
    await database.pool.execute("UPDATE lease SET next_offset = 50 WHERE key = $1", key)
    for who, offset in ((uuid4(), 50), (owner, 10)):
        with pytest.raises(FencedError):
            await database.run(leases.halt, who, Incident(key, offset, 70, 90))
    before = await database.pool.fetchval("SELECT count(*) FROM ingest_incident")
    for end in (90, 99):
        await database.run(leases.halt, owner, Incident(key, 50, 70, end))

    halted = await database.pool.fetch("SELECT halted, log_end FROM lease JOIN ingest_incident ON partition = key")
    assert (before, [tuple(row) for row in halted]) == (0, [(True, 99)])


@pytest.mark.parametrize(("epoch", "expected"), [pytest.param(0, 0, id="of another owner"), pytest.param(1, 9, id="moved")])
async def test_a_row_that_is_where_it_was_counts_only_with_its_epoch_and_offset(
    database: Database, epoch: int, expected: int
) -> None:
    await register(database, [LeaseSpec(PARTITION, "a", 0)])
    await database.run(leases.claim, uuid4(), {Group(PARTITION, ""): 1})
    ((place,),) = await database.pool.fetch("SELECT ctid::text FROM lease")
    database.memory.lease_ctids["a"] = place

    for move, is_taken in ((OffsetMove("a", epoch, expected, 10), False), (OffsetMove("a", 1, 0, 10), True)):
        with nullcontext() if is_taken else pytest.raises(FencedError):
            await database.run(inbox.record_batch, [move], [])
        assert await database.pool.fetchval("SELECT next_offset FROM lease") == (10 if is_taken else 0)


async def halted_at(database: Database, *offsets: int) -> list[Incident]:
    """The incidents of partitions that halted at these offsets."""
    owner = uuid4()
    await register(database, [LeaseSpec(PARTITION, f"t/{number}", offset) for number, offset in enumerate(offsets)])
    await database.run(leases.claim, owner, {Group(PARTITION, "t"): len(offsets)})
    for number, offset in reversed(list(enumerate(offsets))):
        await database.run(leases.halt, owner, Incident(f"t/{number}", offset, 70, 90))
    return await database.run(leases.incidents)


async def test_a_partition_resumes_only_from_the_halt_that_the_user_saw(database: Database) -> None:
    (incident,) = await halted_at(database, 50)
    other = replace(incident, next_offset=51)

    found = [await database.run(ask, seen) for seen in (other, incident) for ask in (leases.lock_halted, resume)]

    assert found == [False, False, True, True]


async def resume(db: Db, incident: Incident) -> bool:
    return await leases.resume(db, incident, 70, "user")


async def test_halted_partitions_are_listed_by_name(database: Database) -> None:
    assert [incident.partition for incident in await halted_at(database, 1, 2, 3)] == ["t/0", "t/1", "t/2"]


async def test_a_partition_steps_over_a_record_only_from_where_it_stands(database: Database) -> None:
    await register(database, [LeaseSpec(PARTITION, "t/0", 50)])
    steps = [StepOver("t/0", stood_at, stood_at, stood_at + 1) for stood_at in (49, 50, 50)]

    assert [await database.run(leases.step_over, step, "user", "it is bad") for step in steps] == [False, True, False]


async def test_one_user_at_a_time_looks_at_a_halt(database: Database) -> None:
    """What a transaction decides about a halted partition holds until it commits."""
    (incident,) = await halted_at(database, 50)

    async def is_halted() -> bool:
        return await database.run(leases.lock_halted, incident)

    async with database.pool.acquire() as connection, connection.transaction():
        db = Db(connection, Memory(), await connection.fetchval("SELECT now()"))
        assert await leases.lock_halted(db, incident)
        other = create_task(is_halted())
        waits = not await until_ended_or_at_a_lock(database, other)
        assert await leases.resume(db, incident, 70, "user")

    assert (waits, await other) == (True, False)


async def test_a_daemon_reads_only_the_markers_that_may_prove_its_receipts(database: Database) -> None:
    daemon = uuid4()
    for backend, number in ((1, 3), (2, 5), (1, 9)):
        await database.pool.execute("INSERT INTO commit_mark VALUES ($1, $2, $3, now())", daemon, backend, number)
    async with database.pool.acquire() as connection:
        found = [await losses.marks(connection, daemon, least) for least in (0, 6)]

    assert [{backend: mark.number for backend, mark in marks.items()} for marks in found] == [{1: 9, 2: 5}, {1: 9}]


async def test_a_renewal_and_its_marker_are_one_statement(database: Database) -> None:
    job = Job(uuid4(), "here", 7, "test")
    async with database.pool.acquire() as connection:
        db = Db(connection, Memory(), await connection.fetchval("SELECT now()"), marker=losses.marker(job.id, 1, 9))
        standing = await leases.renew(db, job)
        found = await losses.marks(connection, job.id, 0)

    assert (db.statements, standing.daemons, {backend: mark.number for backend, mark in found.items()}) == (1, 1, {1: 9})
