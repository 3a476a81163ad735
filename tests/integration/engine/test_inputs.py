"""Which events count for a condition, on a real Postgres: filters, patterns, expiry; each event has one outcome."""

from datetime import timedelta
from typing import Any

from tests.integration.engine.world import World
from tests.shapes import spec
from tidegate.schemas.conditions.condition import AllOf, DatasetRef, InputDeadlineSpec, NOf, Timing
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.message import PauseRequested

A, B, C = DatasetRef("s://a"), DatasetRef("s://b"), DatasetRef("s://c")
HOUR = timedelta(hours=1).total_seconds()


def consumer(schedule: Any, **facts: Any) -> DagSpec:
    return spec("t!", schedule=schedule, **facts)


async def test_two_of_three_start_a_run(world: World) -> None:
    await world.file(consumer(NOf(2, (A, B, C))))

    await world.updated("s://c")
    before = await world.runs()
    await world.updated("s://a")

    assert (before, len(await world.runs())) == ([], 1)
    assert await world.outcomes() == {"consumed": 2}


async def test_an_event_that_no_filter_accepts_is_discarded(world: World) -> None:
    await world.file(consumer(AllOf((DatasetRef("s://a", "rows > 0"), B))))

    await world.updated("s://a", {"rows": 0})
    await world.updated("s://b")
    before = await world.runs()
    await world.updated("s://a", {"rows": 1})

    assert (before, len(await world.runs())) == ([], 1)
    assert await world.outcomes() == {"consumed": 2, "no filter of the DAG accepts it": 1}


async def test_an_event_that_waits_too_long_expires_at_its_moment(world: World) -> None:
    await world.file(consumer(AllOf((DatasetRef("s://a", expire_after_s=HOUR), B))))
    await world.updated("s://a")

    await world.wait(seconds=HOUR - 1)
    before = await world.outcomes()
    await world.wait(seconds=1)
    await world.updated("s://b")

    assert (before, await world.runs()) == ({"pending": 1}, [])
    assert await world.outcomes() == {"pending": 1, "it expired before a run consumed it": 1}


async def test_what_waits_for_a_paused_dag_expires_at_its_moment(world: World) -> None:
    await world.file(consumer(AllOf((DatasetRef("s://a", expire_after_s=HOUR), B)), on_paused="keep"))
    await world.tell(PauseRequested(dag_id="d", is_paused=True))
    await world.updated("s://a")

    await world.wait(seconds=HOUR - 1)
    before = await world.outcomes()
    await world.wait(seconds=1)

    assert (before, await world.outcomes()) == ({"pending": 1}, {"it expired before a run consumed it": 1})


async def test_a_deadline_comes_after_a_pause_also_where_an_event_expires_later(world: World) -> None:
    timing = Timing(deadline=InputDeadlineSpec(after_s=HOUR / 2, fallback="skip"))
    await world.file(consumer(AllOf((DatasetRef("s://a", expire_after_s=HOUR), B)), timing=timing, on_paused="keep"))
    await world.tell(PauseRequested(dag_id="d", is_paused=True))
    await world.updated("s://a")
    await world.tell(PauseRequested(dag_id="d", is_paused=False))

    await world.wait(seconds=HOUR / 2)

    assert await world.outcomes() == {"the other inputs had not arrived by the deadline": 1}
