"""The ledger in months: nothing that still counts is lost when one is dropped."""

from datetime import timedelta

import anyio
import pytest

from tests.integration.engine.ledger_months import AUGUST, DAYS, MAY, NOVEMBER, at_a_later, look, partitions, sizes
from tests.integration.engine.world import World, utc
from tests.shapes import spec
from tidegate.daemon.duties import ledger
from tidegate.daemon.duties.ledger import begin_month, delete_notes, maintain_ledger
from tidegate.daemon.perform import perform
from tidegate.daemon.postgres.database import connect
from tidegate.schemas.conditions.condition import AllOf, DatasetRef
from tidegate.schemas.effect.dag import NoteSchedule
from tidegate.schemas.message import PauseRequested
from tidegate.schemas.queries import inbox, sources
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.inbox import Identity
from tidegate.schemas.queries.unit_of_work import UnitOfWork
from tidegate.schemas.wire.event import DatasetUpdated

A, B = DatasetRef("s://a"), DatasetRef("s://b")


@pytest.fixture(autouse=True)
async def in_may(world: World) -> None:
    """The ledger's first month has begun, and what was before is gone: there was nothing in it."""
    await maintain_ledger(world.database, DAYS)


async def test_an_event_has_the_month_that_it_came_in_in_its_id(world: World) -> None:
    for at in (MAY, utc(2024, 5, 31, 23, 59), utc(2024, 6, 1), utc(2024, 12, 31), utc(2025, 1, 1)):
        world.clock.at = at
        await begin_month(world.database)
        await world.updated("s://a")

    ids = [id_ for (id_,) in await world.rows("SELECT id FROM dataset_event ORDER BY id")]

    assert [divmod(id_, 10**12) for id_ in ids] == [(2405, 1), (2405, 2), (2406, 1), (2412, 1), (2501, 1)]


async def test_an_event_that_comes_before_its_month_has_begun_goes_to_the_month_before(world: World) -> None:
    world.clock.at = utc(2024, 6, 1)

    await world.updated("s://a")

    assert await world.rows("SELECT tableoid::regclass::text FROM dataset_event") == [("dataset_event_2405",)]


async def test_a_month_does_not_begin_again_and_none_before_it_does(world: World) -> None:
    await world.updated("s://a")

    for at in (MAY, utc(2024, 4, 1)):
        world.clock.at = at
        await begin_month(world.database)
    await world.updated("s://a")

    assert await world.rows("SELECT id FROM dataset_event ORDER BY id") == [(2405 * 10**12 + 1,), (2405 * 10**12 + 2,)]


async def test_many_daemons_go_on_to_a_month_while_events_come(world: World, dsn: str) -> None:
    world.clock.at = utc(2024, 6, 1)

    async with connect(dsn, connections=8) as other, anyio.create_task_group() as tg:
        elsewhere = World(other, world.at)
        for _ in range(5):
            for each in (world, elsewhere):
                tg.start_soon(each.updated, "s://a")
                tg.start_soon(begin_month, each.database)
    await world.updated("s://a")

    months = await world.rows("SELECT id / 1000000000000, count(*) FROM dataset_event GROUP BY 1 ORDER BY 1")
    assert sum(events for _, events in months) == 11
    assert months[-1][0] == 2406


async def test_a_month_goes_with_its_events_outcomes_and_arrivals(world: World) -> None:
    await world.file(spec("t!", dag_id="runs", schedule=A), spec("t!", dag_id="paused", schedule=A))
    await world.tell(PauseRequested(dag_id="paused", is_paused=True))
    await world.updated("s://a")
    before = await sizes(world)

    await at_a_later(world, AUGUST)

    assert (before, await sizes(world)) == ([1, 1, 1, 1], [0, 0, 0, 0])
    assert await look(world) == (0, 0, 0)
    assert await partitions(world) == ["dataset_event_2408"]


async def test_a_month_stays_for_as_long_as_the_retention_after_its_end(world: World) -> None:
    await world.updated("s://a")

    await at_a_later(world, utc(2024, 6, 1) + timedelta(days=DAYS, seconds=-1))
    before = await partitions(world)
    await at_a_later(world, utc(2024, 6, 1) + timedelta(days=DAYS))

    assert "dataset_event_2405" in before
    assert "dataset_event_2405" not in await partitions(world)


async def test_a_month_that_got_events_of_later_ones_stays_for_them(world: World) -> None:
    world.clock.at = utc(2024, 8, 20)
    await world.updated("s://a")

    await at_a_later(world, utc(2024, 10, 1))

    assert (await sizes(world))[0] == 1


async def test_what_waits_is_kept_with_its_outcomes_until_it_has_made_a_run(world: World) -> None:
    await world.file(spec("t!", schedule=AllOf((A, B))), spec("t!", dag_id="other", schedule=A))
    await world.updated("s://b")
    await world.updated("s://c")
    await world.updated("s://b")

    await at_a_later(world, AUGUST)
    thinned, audited = await sizes(world), await look(world)
    await world.updated("s://a")

    assert (thinned, audited) == ([2, 2, 0, 0], (2, 2, 0))
    assert await world.outcomes() == {"consumed": 3}
    assert (await look(world))[1:] == (4, 0)


async def test_a_fate_of_an_event_that_still_waits_for_another_dag_is_kept(world: World) -> None:
    both = spec("t!", dag_id="waits", schedule=AllOf((A, B)))
    await world.file(both, spec("t!", dag_id="runs", schedule=A), spec("t!", dag_id="paused", schedule=A))
    await world.tell(PauseRequested(dag_id="paused", is_paused=True))
    await world.updated("s://a")

    await at_a_later(world, AUGUST)

    assert await sizes(world) == [1, 1, 1, 1]
    assert await look(world) == (1, 3, 0)


async def test_what_a_run_took_that_has_not_ended_is_kept_for_its_tasks(world: World) -> None:
    await world.file(spec("t", schedule=A))
    await world.updated("s://a", {"rows": 7})

    await at_a_later(world, AUGUST)

    ((run,),) = await world.rows("SELECT id FROM dag_run")
    found = await world.database.run(sources.of_runs, dag_run_ids=[run])
    assert [event.extra for event in found[run].context.events] == [{"rows": 7}]


async def test_what_was_kept_goes_when_the_retention_has_passed_since_it_was_of_use(world: World) -> None:
    await world.file(spec("t", schedule=A))
    await world.updated("s://a")
    await at_a_later(world, AUGUST)
    await world.work()

    await at_a_later(world, AUGUST + timedelta(days=DAYS, seconds=-1))
    before = await sizes(world)
    await at_a_later(world, AUGUST + timedelta(days=DAYS, seconds=1))

    assert (before, await sizes(world)) == ([1, 1, 0, 1], [0, 0, 0, 0])
    assert (await world.runs())[0][1] == "success"


async def test_a_month_of_which_too_much_waits_stays_whole(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.file(spec("t!", schedule=AllOf((A, B))))
    for _ in range(3):
        await world.updated("s://a")
    await world.updated("s://c")
    monkeypatch.setattr(ledger, "MAX_PENDING", 2)

    await at_a_later(world, AUGUST)

    assert (await sizes(world))[0] == 4


async def test_an_event_that_comes_again_after_its_month_was_dropped_has_no_effect(world: World) -> None:
    """Ids are remembered apart from the ledger, for a time of their own."""
    await world.file(spec("t!", schedule=A))
    await world.tell(DatasetUpdated(uri="s://a"), id_="one")
    await at_a_later(world, AUGUST)

    await world.tell(DatasetUpdated(uri="s://a"), id_="one")

    assert len(await world.runs()) == 1
    assert (await sizes(world))[0] == 0


async def test_an_event_is_known_again_for_as_long_as_its_id_is_remembered(world: World) -> None:
    await world.tell(DatasetUpdated(uri="s://a"), id_="one")
    await world.rows("UPDATE event_dedupe SET received_at = now() - interval '13 days 23 hours'")

    kept = await world.database.run(inbox.forget, days=14, pages=range(1))
    await world.rows("UPDATE event_dedupe SET received_at = now() - interval '14 days 1 second'")
    gone = await world.database.run(inbox.forget, days=14, pages=range(1))

    assert (kept, gone) == (0, 1)
    assert await world.database.run(inbox.recorded, ids=[Identity("test", "one", "data")]) == {}


async def test_a_new_consumer_gets_the_history_that_there_is(world: World) -> None:
    await world.file(spec("t!", dag_id="waits", schedule=AllOf((A, B))))
    await world.updated("s://a")
    await world.updated("s://b")
    await world.updated("s://a")
    await at_a_later(world, AUGUST)

    await world.file(spec("t!", dag_id="new", schedule=AllOf((A, B)), missed="all"), path="new.py")

    assert await world.outcomes("new") == {"pending": 1}
    assert (await look(world))[2] == 0


async def test_a_run_tells_how_many_events_made_it_when_they_are_gone(world: World) -> None:
    await world.file(spec("t!", schedule=AllOf((A, B))))
    for uri in ("s://a", "s://a", "s://b"):
        await world.updated(uri)

    await at_a_later(world, NOVEMBER)

    assert await world.rows("SELECT events FROM dag_run") == [(3,)]


async def test_notes_that_have_not_come_up_for_long_are_forgotten(world: World) -> None:
    await world.file(spec("t!", schedule=A))
    for days in (0, 100):
        at = MAY + timedelta(days=days)
        await world.database.run(_note, NoteSchedule("d", "tick_unmet", f"{days}", at))
    world.clock.at = MAY + timedelta(days=120)

    await delete_notes(world.database, DAYS)

    assert await world.rows("SELECT reason FROM schedule_note") == [("100",)]


async def _note(db: Db, effect: NoteSchedule) -> None:
    await perform(UnitOfWork(db, None, None, None), [effect])
