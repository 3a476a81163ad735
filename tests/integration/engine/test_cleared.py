"""Runs and tasks are cleared: they run again, and their history stays."""

from datetime import timedelta

import pytest

from tests.integration.engine.chains import clear, command, moves, started
from tests.integration.engine.world import World, states
from tidegate.schemas.conditions.condition import DatasetRef
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.message import AttemptTimedOut


async def test_r12_of_runs_cleared_at_once_no_more_start_than_may(world: World) -> None:
    await started(world, command("a"), runs=3, max_active_runs=1)
    for _ in range(3):
        await world.work()
    assert states(await world.runs()) == ["success"] * 3

    await clear(world, None)

    assert states(await world.runs()) == ["running", "queued", "queued"]


async def test_a_cleared_task_runs_again_with_all_after_it_and_its_history_stays(world: World) -> None:
    await started(world)
    for _ in range(3):
        await world.work()

    await clear(world, task_ids=("b",))
    assert await world.tasks("r1") == {"a": "success", "b": "scheduled", "c": "none"}
    for _ in range(2):
        await world.work()

    assert await world.tasks("r1") == {"a": "success", "b": "success", "c": "success"}
    tries = "SELECT task_index, try_number FROM submission ORDER BY 1, 2"
    assert await world.rows(tries) == [(0, 1), (1, 1), (1, 2), (2, 1), (2, 2)]
    assert await moves(world) == ["queued", "running", "success", "queued", "running", "success"]


async def test_a_cleared_task_has_the_times_of_its_next_execution(world: World) -> None:
    times = "SELECT task_id, start_date IS NOT NULL, end_date IS NOT NULL FROM task_instance ORDER BY task_index"
    await started(world)
    for _ in range(3):
        await world.work()

    await clear(world, task_ids=("b",))
    waiting = await world.rows(times)
    await world.admit()
    queued = await world.rows(times)
    await world.submit()
    running = await world.rows(times)

    first = ("a", True, True)
    assert waiting == queued == [first, ("b", False, False), ("c", False, False)]
    assert running == [first, ("b", True, False), ("c", False, False)]


async def test_only_what_failed_is_cleared_where_that_is_asked_for(world: World) -> None:
    await started(world, command("a"), command("b"), command("c", "b"))
    await world.admit()
    await world.submit()
    first, second = await world.attempts()
    await world.finish(first)
    await world.finish(second, "failed")
    assert await world.tasks("r1") == {"a": "success", "b": "failed", "c": "upstream_failed"}

    await clear(world, only_failed=True)

    assert await world.tasks("r1") == {"a": "success", "b": "scheduled", "c": "none"}


async def test_a_task_cleared_at_work_is_killed_and_tried_again_even_if_it_succeeds_meanwhile(world: World) -> None:
    await started(world, command("a"))
    await world.admit()
    await world.submit()
    (attempt,) = await world.attempts()

    await clear(world, task_ids=("a",))
    assert await world.tasks("r1") == {"a": "running"}
    await world.finish(attempt)
    assert await world.tasks("r1") == {"a": "scheduled"}
    await world.work()

    assert await world.runs() == [("r1", "success")]
    assert await world.rows("SELECT max(try_number) FROM submission") == [(2,)]


@pytest.mark.parametrize("outcome", ["killed", "succeeded"])
async def test_a_task_that_is_cleared_while_it_is_killed_waits_for_its_upstream(world: World, outcome: str) -> None:
    """By itself, one that timed out would have failed, and one that was not submitted would wait in its queue again."""
    await started(world)
    await world.work()
    await world.admit()
    await world.submit()
    (attempt,) = await world.attempts()
    await world.tell(AttemptTimedOut(submission_id=attempt))

    await clear(world, task_ids=("a",))
    await world.finish(attempt, outcome)

    assert await world.tasks("r1") == {"a": "scheduled", "b": "none", "c": "none"}


async def test_a_cleared_task_has_all_its_retries_again(world: World) -> None:
    await started(world, command("a", retries=1, retry_delay_s=0))
    await world.work("failed")
    await world.work("failed")
    assert await world.runs() == [("r1", "failed")]

    await clear(world)
    await world.work("failed")
    await world.work()

    assert await world.runs() == [("r1", "success")]


async def test_a_run_can_be_cleared_onto_the_newest_version(world: World) -> None:
    await started(world)
    for _ in range(3):
        await world.work()
    newer = (command("first"), command("b", "first"), command("d", "b"), command("a", "d"))
    await world.file(DagSpec(dag_id="d", tasks=newer))

    await clear(world, task_ids=("b",), newest_version=True)
    assert await world.tasks("r1") == {"first": "scheduled", "b": "none", "d": "none", "a": "none"}
    for _ in range(4):
        await world.work()

    assert await world.runs() == [("r1", "success")]
    tries = """
        SELECT task.task_id, count(*) FROM submission JOIN task_instance AS task USING (dag_run_id, task_index)
        GROUP BY task.task_id ORDER BY 1
    """
    assert await world.rows(tries) == [("a", 2), ("b", 2), ("c", 1), ("d", 1), ("first", 1)]
    assert await world.rows("SELECT task_id FROM task_instance WHERE state = 'removed'") == [("c",)]


async def test_clearing_what_comes_between_clears_setup_and_teardown(world: World) -> None:
    make = command("make", is_setup=True)
    remove = command("remove", "make", "use", teardown_of=("make",))
    await started(world, make, command("use", "make"), remove, command("other", "make"))
    for _ in range(3):
        await world.work()
    assert await world.runs() == [("r1", "success")]

    await clear(world, task_ids=("use",), downstream=False)

    assert await world.tasks("r1") == {"make": "scheduled", "use": "none", "remove": "none", "other": "success"}


async def test_a_producer_whose_clock_is_ahead_delays_no_cleared_run_and_moves_no_order(world: World) -> None:
    await world.file(DagSpec(dag_id="d", schedule=DatasetRef("s://a"), tasks=(command("a", depends_on_past=True),)))
    await world.updated("s://a", ahead=timedelta(hours=2))
    await world.wait(minutes=1)
    await world.updated("s://a")
    await world.reconsider()
    (first, _), (second, _) = await world.runs()

    assert (await world.tasks(first), await world.tasks(second)) == ({"a": "scheduled"}, {"a": "none"})
    for _ in range(2):
        await world.work()
        await world.reconsider()
    assert states(await world.runs()) == ["success", "success"]

    await clear(world, first)

    assert states(await world.runs()) == ["running", "success"]
