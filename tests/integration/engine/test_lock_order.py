"""The order of locks, in which transactions wait for each other: files before DAGs, and runs by id."""

from asyncio import create_task
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.integration.engine.chains import command, started
from tests.integration.engine.world import World, utc
from tests.waiting import until_at_locks, until_ended_or_at_a_lock
from tidegate.daemon.leases import register
from tidegate.handlers import backfill_due, retry_due
from tidegate.handlers.dag_file_changed import ABSENT_SCANS
from tidegate.schemas.dag import DagSpec, ParsedFile
from tidegate.schemas.message import (
    BackfillActed,
    BackfillAction,
    BackfillDue,
    BackfillRequested,
    DagDeleteRequested,
    Message,
    RetryDue,
)
from tidegate.schemas.queries import backfills, dags, dead_letters, installation, leases, losses, pools, runs, sql
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import PARTITION, Lease, LeaseSpec
from tidegate.schemas.queries.memory import Memory
from tidegate.schemas.timetable.spec import Cron


@asynccontextmanager
async def locked(dsn: str, row: str) -> AsyncIterator[None]:
    """Another session holds the lock of this row."""
    third = await asyncpg.connect(dsn)
    holding = third.transaction()
    await holding.start()
    await third.execute(f"SELECT FROM {row} FOR UPDATE")
    yield
    await holding.rollback()
    await third.close()


async def backfill(world: World, dag_id: str) -> int:
    """The id of a backfill of one date, whose run has started."""
    id_, date = await world.database.run(backfills.reserve), utc(2024, 4, 1)
    await world.tell(BackfillRequested(backfill_id=id_, dag_id=dag_id, start_date=date, end_date=date, max_active_runs=1))
    for _ in range(2):
        await world.tick()
    return id_


async def alone(world: World, work: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    """Once, and not again after a deadlock."""
    async with world.database.pool.acquire() as connection, connection.transaction():
        return await work(Db(connection, Memory(), world.at), *args)


PHYSICAL = "SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off"
"""The planner reads rows as they lie, and not in the order of an index."""

TIMED = {"tasks": (command("work"),), "timetable": Cron(("0 0 * * *",)), "missed": "skip"}
LETTERS = """
    INSERT INTO dead_letter (topic, partition, "offset", headers, value_bytes, reason, message, recorded_at)
    SELECT 't', 0, number, '[]', 0, '', '', now() FROM generate_series(1, 2) AS number
"""
OWNER = UUID(int=1)


async def two_of_each(world: World) -> None:
    """Two DAGs with a backfill each, whose run is active, and two rows of each other table that transactions lock in an order."""
    await world.file(*(DagSpec(dag_id=id_, **TIMED) for id_ in "de"))  # type: ignore[arg-type]  # each key has its own type
    for dag_id in "de":
        await backfill(world, dag_id)
    await world.admit()
    await register(world.database, [LeaseSpec(PARTITION, key, 0) for key in "ab"])
    await world.rows("UPDATE lease SET owner = $1", OWNER)
    await world.rows("INSERT INTO pool (name, slots) VALUES ('other', 1)")
    await world.rows("INSERT INTO deferred_dag SELECT dag_id, now() FROM dag")
    await world.rows(LETTERS)


async def lock_runs_of_attempts(db: Db, _ids: Any) -> Any:
    return await runs.lock_of_attempts(db, [row[0] for row in await db.fetch("SELECT submission_id FROM submission")])


async def lock_pools(db: Db, _names: Any) -> Any:
    return await pools.lock(db, "other", 10)


async def release(db: Db, keys: Any) -> Any:
    return await leases.release(db, OWNER, [Lease(PARTITION, key, 0, 0, halted=False) for key in keys])


async def leave(db: Db, _keys: Any) -> Any:
    return await leases.leave(db, OWNER)


async def sign(db: Db, keys: Any) -> Any:
    return await leases.sign_from(db, dict.fromkeys(keys, 0))


async def lose(db: Db, _ids: Any) -> Any:
    return await losses.record(db, "1", db.now, db.now, "test")


async def discard(db: Db, ids: Any) -> Any:
    return await dead_letters.discard(db, ids, "user", "")


async def pass_times(db: Db, _ids: Any) -> Any:
    return await installation.timed_dags(db)


async def defer(db: Db, ids: Any) -> Any:
    return await db.execute(sql.named("dags.defer"), ids, [db.now] * len(ids))


@pytest.mark.parametrize(
    ("key", "lock"),
    [
        pytest.param("dag.dag_id", dags.lock, id="DAGs"),
        pytest.param("dag.dag_id", dags.lock_unread, id="DAGs, also held ones"),
        pytest.param("dag.dag_id", lose, id="DAGs at a loss"),
        pytest.param("dag.dag_id", pass_times, id="DAGs of an installation that is released"),
        pytest.param("deferred_dag.dag_id", dags.take_deferred, id="DAGs with deferred decisions"),
        pytest.param("deferred_dag.dag_id", defer, id="DAGs whose decisions are deferred again"),
        pytest.param("dag_run.id", runs.lock, id="runs"),
        pytest.param("dag_run.id", runs.lock_unread, id="runs, also of held DAGs"),
        pytest.param("dag_run.id", lock_runs_of_attempts, id="runs of attempts"),
        pytest.param("dag_run.id", lose, id="runs at a loss"),
        pytest.param("backfill.id", backfills.lock, id="backfills"),
        pytest.param("pool.name", lock_pools, id="pools"),
        pytest.param("dead_letter.id", discard, id="dead letters"),
        pytest.param("lease.key", release, id="leases that are released"),
        pytest.param("lease.key", leave, id="leases of a daemon that ends"),
        pytest.param("lease.key", sign, id="leases of partitions whose events get signed"),
    ],
)
async def test_rows_are_locked_in_the_order_of_their_keys(
    world: World, dsn: str, key: str, lock: Callable[[Db, Any], Awaitable[Any]]
) -> None:
    """While one that comes first is locked, none behind it is: two transactions never wait for each other."""

    async def as_they_lie(db: Db, keys: Sequence[Any]) -> Any:
        await db.execute(PHYSICAL)
        return await lock(db, keys)

    await two_of_each(world)
    table, _, name = key.partition(".")
    (first,), (second,) = await world.rows(f"SELECT {name} FROM {table} ORDER BY {name}")
    await world.rows(
        f"UPDATE {table} SET {name} = {name} WHERE {name} = $1" if table != "dead_letter" else "SELECT $1::bigint", first
    )

    async with locked(dsn, f"{table} WHERE {name} = '{first}'"):
        waits = create_task(alone(world, as_they_lie, [second, first]))
        assert not await until_ended_or_at_a_lock(world.database, waits)
        free = await world.rows(f"SELECT {name} FROM {table} WHERE {name} = $1 FOR UPDATE SKIP LOCKED", second)
    await waits

    assert free == [(second,)]


async def test_a_backfill_that_stops_and_one_that_retries_do_not_deadlock_with_tasks_that_are_due(world: World, dsn: str) -> None:
    """A step of both locks the run of the first, which is the later one, not before that of the second."""
    await world.file(*(DagSpec(dag_id=id_, **TIMED) for id_ in "de"))  # type: ignore[arg-type]  # each key has its own type
    retried = await backfill(world, "d")
    await world.work("failed")
    await world.tick()
    stopped = await backfill(world, "e")
    await world.tell(BackfillActed(backfill_id=retried, action=BackfillAction.RETRY))
    await world.tell(BackfillActed(backfill_id=stopped, action=BackfillAction.CANCEL, kills=True))
    ids = [row[0] for row in await world.rows("SELECT id FROM dag_run ORDER BY id")]

    def messages(*bodies: Any) -> list[Message[Any]]:
        return [Message(body=body, at=world.at) for body in bodies]

    async with locked(dsn, f"dag_run WHERE id = {ids[0]}"):
        retries = create_task(alone(world, retry_due.load, messages(*(RetryDue(dag_run_id=id_, task_index=0) for id_ in ids))))
        await until_at_locks(world.database, 1)
        step = create_task(
            alone(world, backfill_due.load, messages(*(BackfillDue(backfill_id=id_) for id_ in (retried, stopped))))
        )
        await until_at_locks(world.database, 2)

    assert sorted((await retries).runs) == ids
    assert [sorted(due.runs) for due in (await step).due] == [ids, ids]


async def test_a_dag_whose_file_comes_back_while_it_is_deleted_is_there_again(world: World, dsn: str) -> None:
    """The file is as it was: its DAG would be taken for the stored one."""
    await started(world, command("work"), runs=0)
    file = ParsedFile(path="dags.py", digest="1", dags=(DagSpec(dag_id="d", tasks=(command("work"),)),))
    for _ in range(ABSENT_SCANS):
        await world.tell(ParsedFile(path="dags.py", digest=None))

    async with locked(dsn, "dag"):
        deletion = create_task(world.tell(DagDeleteRequested(dag_id="d")))
        await until_at_locks(world.database, 1)
        change = create_task(world.tell(file))
        await until_at_locks(world.database, 2)

    assert (await deletion).rejected == ()
    await change
    assert await world.rows("SELECT dag_id, is_stale FROM dag") == [("d", False)]
