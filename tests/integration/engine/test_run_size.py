"""A run consumes a limited number of events, the oldest first; the rest makes the next run. On a real Postgres."""

import tracemalloc
from datetime import timedelta
from string import ascii_letters
from typing import Any

import pytest

from tests.integration.engine.world import World
from tests.shapes import spec
from tidegate.handlers.scheduling import read_plan
from tidegate.schemas.conditions.condition import AllOf, AnyOf, DatasetRef, InputDeadlineSpec, PatternRef, Timing
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.message import PauseRequested
from tidegate.schemas.queries import memory
from tidegate.schemas.read_plan import READ_BYTES
from tidegate.schemas.wire.event import DatasetUpdated

A, B, C = DatasetRef("s://a"), DatasetRef("s://b"), DatasetRef("s://c")
NUMBERS = """
    SELECT array_agg(event.extra ->> 'n' ORDER BY event.id), run.events_left
    FROM dag_run AS run
    JOIN dagrun_dataset_event AS consumed ON consumed.dag_run_id = run.id
    JOIN dataset_event AS event ON event.id = consumed.dataset_event_id
    GROUP BY run.id ORDER BY run.id
"""
MINUTE = timedelta(minutes=1).total_seconds()


def consumer(schedule: Any, **facts: Any) -> DagSpec:
    return spec("t!", schedule=schedule, on_paused="keep", **facts)


@pytest.fixture
def few(world: World) -> World:
    """A run consumes at most three events."""
    world.database.run_events = 3
    return world


async def arrive(world: World, *numbers: str) -> None:
    """Events arrive at once: `a1` is number 1 of `s://a`."""
    await world.tell(*(DatasetUpdated(uri=f"s://{number[0]}", extra={"n": number}) for number in numbers))


async def consumed(world: World) -> list[tuple[str, int]]:
    """The events of each run, and how many its limit left at least."""
    await world.wait()
    return [(" ".join(numbers), left) for numbers, left in await world.rows(NUMBERS)]


async def test_the_rest_makes_the_next_run_at_once(few: World) -> None:
    await few.file(consumer(A))

    await arrive(few, "a1", "a2", "a3", "a4", "a5", "a6", "a7")

    assert await consumed(few) == [("a1 a2 a3", 3), ("a4 a5 a6", 1), ("a7", 0)]


async def test_the_rest_is_noticed_whatever_the_number_of_inputs(few: World) -> None:
    """A run has the oldest event of each input, also where these are many times the limit."""
    await few.file(consumer(AnyOf(tuple(DatasetRef(f"s://{letter}") for letter in ascii_letters))))

    await arrive(few, *(f"{letter}1" for letter in ascii_letters), "a2")

    firsts = " ".join(f"{letter}1" for letter in ascii_letters)
    assert await consumed(few) == [(firsts, 1), ("a2", 0)]


async def test_the_rest_waits_for_a_slot(few: World) -> None:
    await few.file(spec("t", schedule=A, limit=1))
    await arrive(few, "a1", "a2", "a3", "a4")
    before = await consumed(few)

    await few.work()

    assert (before, await consumed(few)) == ([("a1 a2 a3", 1)], [("a1 a2 a3", 1), ("a4", 0)])


async def test_the_events_of_a_pause_are_consumed_in_order(few: World) -> None:
    await few.file(consumer(AnyOf((A, B))))
    await few.tell(PauseRequested(dag_id="d", is_paused=True))
    await arrive(few, "b1", "a2", "a3", "b4")
    await arrive(few, "a5", "b6")

    await few.tell(PauseRequested(dag_id="d", is_paused=False))

    assert await consumed(few) == [("b1 a2 a3", 3), ("b4 a5 b6", 0)]


async def test_a_run_has_each_input_that_met_the_condition(few: World) -> None:
    await few.file(consumer(AllOf((A, B))))

    await arrive(few, *["a1", "a2", "a3", "a4", "a5"])
    await arrive(few, "b6")
    await arrive(few, "b7")

    assert await consumed(few) == [("a1 a2 b6", 3), ("a3 a4 b7", 1)]
    assert await few.outcomes() == {"consumed": 6, "pending": 1}


async def test_filters_find_an_event_behind_many(few: World) -> None:
    newest, others = DatasetRef("s://a", "n == 'a9'"), DatasetRef("s://a", "n != 'a9'")
    await few.file(consumer(AllOf((newest, others))))

    await arrive(few, *(f"a{number}" for number in range(1, 9)))
    before = await consumed(few)
    await arrive(few, "a9")

    assert (before, await consumed(few)) == ([], [("a1 a2 a9", 6)])


async def test_rejected_events_make_room_for_the_others(few: World) -> None:
    await few.file(consumer(DatasetRef("s://a", "n == 'a9'")))
    await few.tell(PauseRequested(dag_id="d", is_paused=True))
    await few.rows("UPDATE dag SET inspects_events = false")
    await arrive(few, *(f"a{number}" for number in range(1, 10)))

    await few.tell(PauseRequested(dag_id="d", is_paused=False))

    assert await consumed(few) == [("a9", 0)]
    assert await few.outcomes() == {"consumed": 1, "no filter of the DAG accepts it": 8}


async def test_events_of_a_dataset_that_is_no_longer_named_go_in_parts(few: World) -> None:
    await few.file(consumer(AllOf((A, B))))
    await arrive(few, *(f"a{number}" for number in range(1, 9)))

    await few.file(consumer(AllOf((C, B))))
    await few.wait()

    assert await few.outcomes() == {"the DAG is no longer scheduled on this dataset": 8}


async def test_quiet_is_judged_by_the_newest_event(few: World) -> None:
    await few.file(consumer(A, timing=Timing(quiet_for_s=2 * MINUTE)))
    await arrive(few, "a1", "a2", "a3", "a4")
    await few.wait(seconds=MINUTE)
    await arrive(few, "a5")

    await few.wait(seconds=2 * MINUTE - 1)
    before = await consumed(few)
    await few.wait(seconds=1)

    assert (before, await consumed(few)) == ([], [("a1 a2 a3", 2), ("a4 a5", 0)])


async def test_a_run_of_a_dag_that_inspects_events_has_a_bound_in_bytes(world: World) -> None:
    await world.file(consumer(DatasetRef("s://a", "n != 'a9'")))
    text = "x" * (READ_BYTES // 2)

    await world.tell(*(DatasetUpdated(uri="s://a", extra={"n": number, "text": text}) for number in ("a1", "a2", "a3")))

    assert await consumed(world) == [("a1", 2), ("a2", 1), ("a3", 0)]


async def test_many_large_events_take_a_bounded_part_of_the_memory(world: World) -> None:
    await world.file(consumer(DatasetRef("s://a", "n > 0")))
    await world.tell(PauseRequested(dag_id="d", is_paused=True))
    large = DatasetUpdated(uri="s://a", extra={"n": 1, "text": "x" * (1 << 20)})
    for _ in range(12):
        await world.tell(*[large] * 8)

    tracemalloc.start()
    try:
        await world.tell(PauseRequested(dag_id="d", is_paused=False))
        await world.wait()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert await world.outcomes() == {"consumed": 96}
    assert peak < 4 * READ_BYTES


async def test_dags_are_decided_about_while_their_versions_do_not_fit_into_memory(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MAX_SPEC_BYTES", 1)
    world.database.memory = memory.Memory()
    await world.file(spec("t!", schedule=A, limit=1))
    await world.file(spec("t!", dag_id="e", schedule=A, limit=1), path="e.py")

    await arrive(world, "a1")
    await arrive(world, "a2")

    assert len(world.database.memory.graphs) == 1
    assert await consumed(world) == [("a1", 0), ("a1", 0), ("a2", 0), ("a2", 0)]


async def test_a_dag_is_held_whose_condition_needs_more_events_than_fit_into_memory(
    few: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_plan, "MAX_READ_EVENTS", 5)
    await few.file(consumer(AllOf((A, DatasetRef("s://a", "n == 'never'")))))

    await arrive(few, *(f"a{number}" for number in range(1, 9)))

    assert await few.rows("SELECT hold_reason FROM dag") == [
        ("its 5 oldest pending events do not meet its condition; let its events expire, or change the condition",)
    ]
    assert await few.outcomes() == {"pending": 8}


@pytest.mark.parametrize(
    ("fallback", "left"),
    [
        pytest.param("alert", {"pending": 8}, id="alert"),
        pytest.param("skip", {"the other inputs had not arrived by the deadline": 8}, id="skip"),
    ],
)
async def test_a_deadline_needs_no_more_events_than_a_run(
    few: World, monkeypatch: pytest.MonkeyPatch, fallback: Any, left: dict[str, int]
) -> None:
    monkeypatch.setattr(read_plan, "MAX_READ_EVENTS", 5)
    await few.file(consumer(AllOf((A, B)), timing=Timing(deadline=InputDeadlineSpec(after_s=MINUTE, fallback=fallback))))
    await arrive(few, *(f"a{number}" for number in range(1, 9)))

    await few.wait(seconds=MINUTE)

    assert await few.rows("SELECT hold_reason FROM dag") == [(None,)]
    assert {kind for (kind,) in await few.rows("SELECT kind FROM schedule_note")} == {f"deadline_{fallback}"}
    assert await few.outcomes() == left


async def test_each_event_has_a_run_in_order(few: World) -> None:
    await few.file(consumer(A, mode="each", limit=2))

    await arrive(few, *(f"a{number}" for number in range(1, 9)))

    assert await consumed(few) == [(f"a{number}", 0) for number in range(1, 9)]


async def test_late_inputs_are_consumed_in_parts(few: World) -> None:
    timing = Timing(deadline=InputDeadlineSpec(after_s=MINUTE, fallback="run_anyway"))
    await few.file(consumer(AllOf((A, B)), timing=timing))
    await arrive(few, *(f"a{number}" for number in range(1, 9)))

    await few.wait(seconds=MINUTE)

    assert await consumed(few) == [("a1 a2 a3", 3), ("a4 a5 a6", 2), ("a7 a8", 0)]


async def test_a_window_is_consumed_in_parts(few: World) -> None:
    await few.file(consumer(PatternRef("s://*"), timing=Timing(within_s=MINUTE)))

    await arrive(few, *(f"a{number}" for number in range(1, 8)))

    assert await consumed(few) == [("a1 a2 a3", 3), ("a4 a5 a6", 1), ("a7", 0)]
