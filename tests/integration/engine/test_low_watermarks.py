"""The pending queue is read from its low watermark: past consumed events, and never past events that may still be queued."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.integration.engine.world import World
from tests.shapes import spec
from tests.transactions import transaction
from tidegate.daemon.postgres.database import connect
from tidegate.handlers.load import lock_dags
from tidegate.schemas.conditions.condition import AllOf, AnyOf, DatasetRef
from tidegate.schemas.message import DagDeleteRequested
from tidegate.schemas.queries import pending
from tidegate.schemas.queries.db import Db

A, B = DatasetRef("s://a"), DatasetRef("s://b")

QUEUED = """
    WITH event AS (
        INSERT INTO dataset_event (id, dataset_id, source, event_id, extra, occurred_at, received_at, arrival_id)
        SELECT nextval('dataset_event_id_seq'), id, 'test', 'late', '{}', now(), now(), 0 FROM dataset WHERE uri = 's://b'
        RETURNING id, dataset_id
    )
    INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id, created_at)
    SELECT 'd', dataset_id, id, now() FROM event
"""


@pytest.fixture
def read_from(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The low watermark of each read."""
    found: list[int] = []
    planned = pending._planned

    async def noted(db: Any, plans: Any, low_watermarks: Any) -> Any:
        found.extend(low_watermarks[dag_id] for dag_id in plans)
        return await planned(db, plans, low_watermarks)

    monkeypatch.setattr(pending, "_planned", noted)
    return found


async def runs(world: World) -> int:
    ((found,),) = await world.rows("SELECT count(*) FROM dag_run")
    return int(found)


async def test_consumed_events_are_not_read_again(world: World, dsn: str, read_from: list[int]) -> None:
    await world.file(spec("t!", schedule=A, limit=1))
    async with transaction(dsn) as other:
        await other.execute("SELECT pg_current_xact_id()")
        for _ in range(10):
            await world.updated("s://a")

    ((last,),) = await world.rows("SELECT max(id) FROM dataset_event")
    assert (await runs(world), read_from[0]) == (10, 0)
    assert last - 4 < read_from[-1] <= last


async def test_an_event_that_is_committed_late_counts_late(world: World, dsn: str) -> None:
    await world.file(spec("t!", schedule=AnyOf((A, B)), limit=1))
    await world.updated("s://b")
    async with transaction(dsn) as other:
        await other.execute(QUEUED)
        for _ in range(6):
            await world.updated("s://a")
    before = await world.outcomes()

    await world.updated("s://a")

    assert (before, await world.outcomes()) == ({"consumed": 7, "pending": 1}, {"consumed": 9})


async def test_events_that_another_daemon_backfills_count(world: World, dsn: str) -> None:
    """They are older than the low watermark of this daemon."""
    await world.file(spec("t!", schedule=A, limit=1))
    await world.updated("s://b")
    for _ in range(4):
        await world.updated("s://a")
    async with other_daemon(world, dsn) as other:
        await other.file(spec("t!", schedule=AllOf((A, B)), limit=1, missed="all"))
    before = await runs(world)

    await world.updated("s://a")

    assert await runs(world) == before + 1


async def test_a_dag_that_another_daemon_created_anew_has_no_low_watermark(world: World, dsn: str) -> None:
    """Both were backfilled once."""
    await world.updated("s://a")
    await world.file(spec("t!", schedule=A, limit=1, missed="all"))
    for _ in range(4):
        await world.updated("s://a")
    before = await world.outcomes()
    async with other_daemon(world, dsn) as other:
        await other.file()
        await other.tell(DagDeleteRequested(dag_id="d"))
        await other.file(spec("t!", schedule=AllOf((A, B)), limit=1, missed="all"))

    await world.updated("s://b")

    assert (before, await world.outcomes()) == ({"consumed": 5}, {"consumed": 6})


async def test_a_rolled_back_decision_advances_no_low_watermark(world: World) -> None:
    await world.file(spec("t!", schedule=AllOf((A, B)), limit=1))
    for _ in range(6):
        await world.updated("s://a")
    with pytest.raises(ZeroDivisionError):
        await world.database.run(consume_for_nothing)

    await world.updated("s://b")

    assert await world.outcomes() == {"consumed": 7}


async def consume_for_nothing(db: Db) -> None:
    """A decision that consumes all events and then fails."""
    await db.execute("DELETE FROM dataset_dag_run_queue")
    await lock_dags(db, ["d"])
    raise ZeroDivisionError


@asynccontextmanager
async def other_daemon(world: World, dsn: str) -> AsyncIterator[World]:
    async with connect(dsn) as database:
        yield World(database, world.at)
