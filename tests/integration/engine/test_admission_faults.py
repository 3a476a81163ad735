"""A task that cannot be admitted costs its DAG alone, and a pool that fails delays no other."""

from pathlib import Path

import pytest

from tests.integration.engine.contexts import context_of
from tests.integration.engine.world import World
from tests.shapes import spec
from tidegate.daemon.context import Context
from tidegate.daemon.duties.admit import PoolRotation, admit_pools
from tidegate.daemon.settings import Settings
from tidegate.handlers import tasks_ready
from tidegate.handlers.admission.capacity import AdmissionState
from tidegate.handlers.admission.load import lock_admission
from tidegate.schemas.conditions.condition import DatasetRef
from tidegate.schemas.message import TasksReady
from tidegate.schemas.queries.db import Db

A = DatasetRef("s://a")
QUEUED = """
    SELECT count(*) FROM task_instance AS task JOIN dag_run AS run ON run.id = task.dag_run_id
    WHERE run.dag_id = $1 AND task.state = 'queued'
"""
SECOND_ATTEMPT = """
    INSERT INTO submission (submission_id, dag_run_id, task_index, try_number, backend, state)
    SELECT gen_random_uuid(), id, 0, 1, 'command', 'lost' FROM dag_run WHERE dag_id = 'bad'
"""


@pytest.fixture
def context(world: World, tmp_path: Path) -> Context:
    return context_of(world.database, Settings(postgres_dsn="", kafka_servers="", host="here", spool_dir=str(tmp_path)))


async def queued(world: World, dag_id: str) -> int:
    ((count,),) = await world.rows(QUEUED, dag_id)
    return int(count)


async def test_a_run_at_an_impossible_time_delays_no_other(world: World, context: Context) -> None:
    await world.file(spec("t", dag_id="bad", schedule=A), path="bad.py")
    await world.file(spec("t", "u", "v", dag_id="good", schedule=A), path="good.py")
    await world.updated("s://a")
    await world.rows("UPDATE dag_run SET run_after = '4713-01-01 BC' WHERE dag_id = 'bad'")

    await admit_pools(context, PoolRotation())

    assert (await queued(world, "bad"), await queued(world, "good")) == (1, 3)


async def test_a_task_that_cannot_be_admitted_holds_its_dag(world: World, context: Context) -> None:
    await world.file(spec("t", dag_id="bad", schedule=A), path="bad.py")
    await world.file(spec("t", "u", "v", dag_id="good", schedule=A), path="good.py")
    await world.updated("s://a")
    await world.rows(SECOND_ATTEMPT)

    await admit_pools(context, PoolRotation())
    await admit_pools(context, PoolRotation())

    ((dag_id, reason),) = await world.rows("SELECT dag_id, hold_reason FROM dag WHERE held_since IS NOT NULL")
    assert (dag_id, await queued(world, "good"), await queued(world, "bad")) == ("bad", 3, 0)
    assert reason.startswith("TasksReady failed: UniqueViolationError")


async def test_a_pool_that_fails_delays_no_other(world: World, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.rows("INSERT INTO pool (name, slots) VALUES ('a', 1), ('z', 1)")
    for pool in "az":
        await world.file(spec("t", dag_id=pool, schedule=A), path=f"{pool}.py")
        await world.rows(
            "UPDATE dag_version SET spec = jsonb_set(spec, '{tasks,0,pool}', to_jsonb($1::text)) WHERE dag_id = $1", pool
        )
    world.database.clear_memory()
    await world.updated("s://a")

    async def fails_for_a(db: Db, ready: TasksReady) -> AdmissionState:
        if ready.pool == "a":
            raise KeyError("surprise")
        return await lock_admission(db, ready)

    monkeypatch.setattr(tasks_ready, "lock_admission", fails_for_a)

    with pytest.raises(KeyError, match="surprise"):
        await admit_pools(context, PoolRotation())

    assert (await queued(world, "a"), await queued(world, "z")) == (0, 1)
