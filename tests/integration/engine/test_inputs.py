"""Which events count for a condition, on a real Postgres: filters, patterns, expiry; each event has one fate."""

from datetime import timedelta

from tests.integration.engine.world import World
from tests.shapes import spec
from tidegate.schemas.condition import AllOf, DatasetRef, NOf
from tidegate.schemas.dag import DagSpec

A, B, C = DatasetRef("s://a"), DatasetRef("s://b"), DatasetRef("s://c")
HOUR = timedelta(hours=1).total_seconds()


def consumer(schedule: object, **facts: object) -> DagSpec:
    return spec("t!", schedule=schedule, **facts)  # type: ignore[arg-type]


async def test_two_of_three_start_a_run(world: World) -> None:
    await world.file(consumer(NOf(2, (A, B, C))))

    await world.updated("s://c")
    before = await world.runs()
    await world.updated("s://a")

    assert (before, len(await world.runs())) == ([], 1)
    assert await world.fates() == {"consumed": 2}


async def test_an_event_that_no_filter_lets_pass_is_discarded(world: World) -> None:
    await world.file(consumer(AllOf((DatasetRef("s://a", "rows > 0"), B))))

    await world.updated("s://a", {"rows": 0})
    await world.updated("s://b")
    before = await world.runs()
    await world.updated("s://a", {"rows": 1})

    assert (before, len(await world.runs())) == ([], 1)
    assert await world.fates() == {"consumed": 2, "no filter of the DAG lets it pass": 1}


async def test_an_event_that_waits_too_long_expires_at_its_moment(world: World) -> None:
    await world.file(consumer(AllOf((DatasetRef("s://a", expire_after_s=HOUR), B))))
    await world.updated("s://a")

    await world.wait(seconds=HOUR - 1)
    before = await world.fates()
    await world.wait(seconds=1)
    await world.updated("s://b")

    assert (before, await world.runs()) == ({"pending": 1}, [])
    assert await world.fates() == {"pending": 1, "it expired before a run took it": 1}
