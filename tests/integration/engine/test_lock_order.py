"""The order of locks, in which transactions wait for each other: files before DAGs, and runs by id."""

from asyncio import create_task
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from tests.integration.engine.chains import command, started
from tests.integration.engine.world import World, utc
from tests.waiting import until_at_locks
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
from tidegate.schemas.queries import backfills
from tidegate.schemas.queries.db import Db
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


async def test_a_backfill_that_stops_and_one_that_retries_do_not_deadlock_with_tasks_that_are_due(world: World, dsn: str) -> None:
    """A step of both locks the run of the first, which is the later one, not before that of the second."""
    timed = {"tasks": (command("work"),), "timetable": Cron(("0 0 * * *",)), "missed": "skip"}
    await world.file(*(DagSpec(dag_id=id_, **timed) for id_ in "de"))  # type: ignore[arg-type]  # each key has its own type
    retried = await backfill(world, "d")
    await world.work("failed")
    await world.tick()
    stopped = await backfill(world, "e")
    await world.tell(BackfillActed(backfill_id=retried, action=BackfillAction.RETRY))
    await world.tell(BackfillActed(backfill_id=stopped, action=BackfillAction.CANCEL, kills=True))
    ids = [row[0] for row in await world.rows("SELECT id FROM dag_run ORDER BY id")]

    async def alone(load: Callable[[Db, Any], Awaitable[Any]], *bodies: Any) -> Any:
        """Once, and not again after a deadlock."""
        async with world.database.pool.acquire() as connection, connection.transaction():
            return await load(Db(connection, Memory(), world.at), [Message(body=body, at=world.at) for body in bodies])

    async with locked(dsn, f"dag_run WHERE id = {ids[0]}"):
        retries = create_task(alone(retry_due.load, *(RetryDue(dag_run_id=id_, task_index=0) for id_ in ids)))
        await until_at_locks(world.database, 1)
        step = create_task(alone(backfill_due.load, *(BackfillDue(backfill_id=id_) for id_ in (retried, stopped))))
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
