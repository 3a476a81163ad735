"""Who gets which events: patterns, histories, ticks and deadlines; on a real Postgres."""

from datetime import timedelta
from functools import partial
from random import randrange
from typing import Any
from uuid import uuid4

import anyio
import pytest

from tests.integration.engine.world import World, utc
from tests.shapes import spec
from tidegate.daemon.engine import Batch, apply
from tidegate.daemon.postgres.database import Database, connect
from tidegate.handlers import dag_file_changed
from tidegate.schemas.conditions.condition import AllOf, AnyOf, DatasetRef, InputDeadlineSpec, PatternRef, Timing
from tidegate.schemas.dag import CommandTask
from tidegate.schemas.message import ClearRequested, Message, RunRequested
from tidegate.schemas.timetable.spec import Cron
from tidegate.schemas.wire.event import DatasetUpdated, EventId

A, B = DatasetRef("s://a"), DatasetRef("s://b")
NEVER = DatasetRef("s://never")
DAYS = PatternRef("s://t/day=*")
LEFT = "the DAG is no longer scheduled on this dataset"


async def references(world: World, dag_id: str = "d") -> list[str]:
    sql = "SELECT uri FROM dag_schedule_dataset_reference JOIN dataset ON dataset.id = dataset_id WHERE dag_id = $1 ORDER BY uri"
    return [row[0] for row in await world.rows(sql, dag_id)]


async def statements(world: World, *uris: str) -> int:
    messages = [
        Message(body=DatasetUpdated(uri=uri, extra={"n": 1}), at=world.at, id=EventId("batch", f"{world.at}/{number}"))
        for number, uri in enumerate(uris)
    ]
    world.clock.at += timedelta(seconds=1)
    return (await apply(world.database, Batch(messages=messages))).statements


# Patterns ---------------------------------------------------------------------------------------------------------


async def test_a_new_dataset_that_a_pattern_matches_is_waited_for_from_its_first_event_on(world: World) -> None:
    await world.file(spec("t!", schedule=DAYS))

    for uri in ("s://t/day=1", "s://t/day=2/x", "s://t/hour=1", "s://t/day=1"):
        await world.updated(uri)

    assert (len(await world.runs()), await references(world), await world.outcomes()) == (2, ["s://t/day=1"], {"consumed": 2})


async def test_datasets_that_were_there_before_the_pattern_are_waited_for(world: World) -> None:
    for uri in ("s://t/day=1", "s://t/day=2", "s://u/day=1"):
        await world.updated(uri)

    await world.file(spec("t!", schedule=DAYS))

    assert (await references(world), await world.outcomes()) == (["s://t/day=1", "s://t/day=2"], {})


async def test_a_dataset_that_another_file_names_is_waited_for_too(world: World) -> None:
    await world.file(spec("t!", schedule=DAYS))
    await world.file(spec("t!", dag_id="other", schedule=DatasetRef("s://t/day=1")), path="other.py")

    await world.updated("s://t/day=1")

    assert (len(await world.runs()), len(await world.runs("other"))) == (1, 1)


async def test_a_pattern_that_goes_takes_its_datasets_along(world: World) -> None:
    await world.file(spec("t!", schedule=AllOf((DAYS, NEVER))))
    await world.updated("s://t/day=1")

    await world.file(spec("t!", schedule=AllOf((A, NEVER))))
    await world.updated("s://t/day=2")

    assert (await references(world), await world.outcomes()) == (["s://a", "s://never"], {LEFT: 1})


async def test_a_first_event_and_a_new_pattern_that_meet_do_not_miss_each_other(world: World) -> None:
    """Whichever commits first: the dataset is waited for in the end."""
    for number in range(20):
        uri, dag = f"s://{number}/new", spec("t!", dag_id=f"p{number}", schedule=PatternRef(f"s://{number}/*"))
        async with anyio.create_task_group() as tg:
            tg.start_soon(world.updated, uri)
            tg.start_soon(partial(world.file, dag, path=f"{number}.py"))

    assert [await references(world, f"p{number}") for number in range(20)] == [[f"s://{number}/new"] for number in range(20)]


# Statements -------------------------------------------------------------------------------------------------------


async def test_a_batch_costs_the_same_number_of_statements_whatever_its_size_and_its_consumers_look_at(world: World) -> None:
    timing = Timing(within_s=60, quiet_for_s=5, deadline=InputDeadlineSpec(after_s=600))
    kinds: tuple[dict[str, Any], ...] = (
        {"schedule": AllOf((DatasetRef("s://a", "n > 0"), B)), "timing": timing},
        {"schedule": AllOf((PatternRef("s://*"), NEVER))},
        {"schedule": DatasetRef("s://a", "n > 9", 60.0)},
        {"schedule": A, "mode": "each", "limit": 500},
        {"schedule": A},
        {"schedule": AllOf((A, NEVER))},
    )
    await world.file(*(spec("t!", dag_id=f"d{number}", **kinds[number % len(kinds)]) for number in range(60)))
    await statements(world, "s://a", "s://b")

    few = await statements(world, "s://a", "s://b", "s://a")
    many = await statements(world, *["s://a", "s://b"] * 250)

    assert few == many <= 20


async def test_a_condition_of_one_dataset_takes_no_further_statements(world: World) -> None:
    await world.file(*(spec("t!", dag_id=f"d{number}", schedule=A) for number in range(10)))
    await statements(world, "s://a")

    assert await statements(world, *["s://a"] * 100) <= 11


async def test_a_growing_queue_is_not_read_while_an_input_is_missing(world: World) -> None:
    await world.file(spec("t!", schedule=AllOf((DatasetRef("s://a", "n > 0", 3600.0), NEVER))))
    await statements(world, "s://a")

    assert await statements(world, *["s://a"] * 100) <= 6
    assert await world.outcomes() == {"pending": 101}


# History ----------------------------------------------------------------------------------------------------------


async def test_a_new_consumer_gets_what_comes_from_then_on(world: World) -> None:
    await world.updated("s://a")

    await world.file(spec("t!", schedule=A))
    await world.tick()

    assert (await world.runs(), await world.outcomes()) == ([], {})


async def test_a_new_consumer_with_catchup_gets_the_history_from_its_start_date_on(world: World) -> None:
    for _ in range(3):
        await world.updated("s://a")
        await world.wait(hours=1)

    await world.file(spec("t!", schedule=A, missed="all", start_date=utc(2024, 5, 1, 13)))
    await world.tick()

    assert (len(await world.runs()), await world.outcomes()) == (1, {"consumed": 2})


async def test_a_file_with_a_new_consumer_of_too_long_a_history_is_not_taken_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dag_file_changed, "MAX_HISTORY", 2)
    await world.file(spec("t!", schedule=A, missed="all"))
    for _ in range(2):
        await world.wait(hours=1)
        await world.updated("s://a")
        await world.updated("s://b")
    both = spec("t!", schedule=AnyOf((A, B)), missed="all")

    await world.file(both, spec("t!", dag_id="e", schedule=A, missed="all"))
    refused = await world.rows("SELECT reason FROM import_error")
    await world.file(both, spec("t!", dag_id="e", schedule=A, missed="all", start_date=utc(2025, 1, 1)))
    await world.tick()

    assert [text for (text,) in refused] == [
        "DAG 'e' has catchup=True, but more than 2 recorded events would become pending for the new inputs of this file; "
        "set a start_date of 2024-05-01 14:10:01Z or later, or catchup=False"
    ]
    assert await world.rows("SELECT FROM import_error") == []
    assert (await world.outcomes(), await world.outcomes("e")) == ({"consumed": 4}, {})


async def test_each_event_of_the_history_makes_a_run_where_each_event_does(world: World) -> None:
    for _ in range(3):
        await world.updated("s://a")

    await world.file(spec("t!", schedule=A, missed="all", mode="each"))
    await world.tick()

    assert (len(await world.runs()), await world.outcomes()) == (3, {"consumed": 3})


async def test_the_history_of_a_dataset_that_was_waited_for_before_is_not_queued_again(world: World) -> None:
    await world.file(spec("t!", schedule=A, missed="all"))
    await world.updated("s://a")
    await world.updated("s://b")

    await world.file(spec("t!", schedule=AnyOf((A, B)), missed="all"))
    await world.tick()

    assert (len(await world.runs()), await world.outcomes()) == (2, {"consumed": 2})


async def test_an_event_that_is_being_written_when_a_consumer_with_catchup_comes_is_not_lost(world: World) -> None:
    for number in range(20):
        uri, dag = f"s://{number}", spec("t!", dag_id=f"c{number}", schedule=DatasetRef(f"s://{number}"), missed="all")
        await world.updated(uri)
        async with anyio.create_task_group() as tg:
            tg.start_soon(world.updated, uri)
            tg.start_soon(partial(world.file, dag, path=f"{number}.py"))
    await world.tick()

    assert [await world.outcomes(f"c{number}") for number in range(20)] == [{"consumed": 2}] * 20


# Time -------------------------------------------------------------------------------------------------------------


async def test_ticks_that_find_the_condition_unmet_are_recorded_and_the_others_run(world: World) -> None:
    hourly = Cron(("0 * * * *",))
    await world.file(spec("t!", schedule=AllOf((A, B)), timetable=hourly, together=True, start_date=utc(2024, 5, 1, 13)))
    await world.updated("s://a")
    await world.go_to(utc(2024, 5, 1, 13, 30))
    await world.updated("s://b")
    await world.go_to(utc(2024, 5, 1, 14, 30))

    assert [run_id for run_id, _ in await world.runs()] == ["scheduled__2024-05-01T14:00:00+00:00"]
    assert await world.outcomes() == {"consumed": 2}
    assert await world.rows("SELECT reason FROM schedule_note") == [
        ("the tick of 2024-05-01 13:00:00Z made no run: it waited for its condition to hold: no event is pending of s://b",)
    ]


async def test_a_tick_at_which_many_long_inputs_are_missing_is_recorded_and_holds_no_dag(world: World) -> None:
    inputs = tuple(DatasetRef(f"s://{uuid4()}") for _ in range(200))
    longest_id = "".join(chr(0x20000 + randrange(40_000)) for _ in range(250))
    hourly: dict[str, Any] = {"timetable": Cron(("0 * * * *",)), "start_date": utc(2024, 5, 1, 13)}
    await world.file(spec("t!", dag_id=longest_id, schedule=AllOf(inputs), together=True, **hourly))

    await world.go_to(utc(2024, 5, 1, 13, 30))

    assert await world.rows("SELECT hold_reason FROM dag") == [(None,)]
    ((reason,),) = await world.rows("SELECT reason FROM schedule_note")
    assert reason.startswith("the tick of 2024-05-01 13:00:00Z made no run: it waited for its condition to hold")
    assert reason.endswith(" more characters)")


async def test_the_end_of_a_run_starts_what_a_deadline_wants(world: World) -> None:
    timing = Timing(deadline=InputDeadlineSpec(after_s=600))
    await world.file(spec("t", schedule=AnyOf((AllOf((A, B)), DatasetRef("s://go"))), timing=timing, limit=1))
    await world.updated("s://go")
    await world.updated("s://a")
    await world.wait(minutes=20)
    waits = len(await world.runs())

    await world.work()

    assert (waits, len(await world.runs()), await world.outcomes()) == (1, 2, {"consumed": 2})


# Two daemons ------------------------------------------------------------------------------------------------------


async def test_two_daemons_that_meet_on_the_inputs_of_a_condition_start_one_run(database: Database, dsn: str) -> None:
    world = World(database, utc(2024, 5, 1, 12, 10))
    async with connect(dsn) as other:
        second = World(other, world.at)
        for number in range(10):
            left, right = DatasetRef(f"s://{number}/a", "n > 0"), PatternRef(f"s://{number}/b*")
            dag = spec("t!", dag_id=f"d{number}", schedule=AllOf((left, right)), timing=Timing(within_s=60))
            await world.file(dag, path=f"{number}.py")
            async with anyio.create_task_group() as tg:
                tg.start_soon(world.updated, f"s://{number}/a", {"n": 1})
                tg.start_soon(second.updated, f"s://{number}/b1")

    assert [len(await world.runs(f"d{number}")) for number in range(10)] == [1] * 10
    assert [await world.outcomes(f"d{number}") for number in range(10)] == [{"consumed": 2}] * 10


async def test_a_cascade_to_a_consumer_that_allows_no_backfills_is_rejected(world: World) -> None:
    writer = CommandTask(task_id="a", argv=("true",), outlets=(A.uri,))
    await world.file(spec(writer), spec("t", dag_id="b", schedule=A, allow_backfills=False))
    await world.tell(RunRequested(dag_id="d", run_id="r1", conf={}))
    await world.work()

    applied = await world.tell(ClearRequested(dag_id="d", run_id="r1", cascade=True, backfill_id=1))

    reason = "the cascade would come to DAG 'b', whose file says allow_backfills=False"
    assert [rejected.message for rejected in applied.rejected] == [f"{reason}; leave out cascade, or choose announce"]
