"""Mapped tasks: an instance for each element of a list."""

from typing import Any

import pytest

from tests.integration.engine.chains import clear, command, started
from tests.integration.engine.world import World
from tidegate.schemas.dag import EmptyTask
from tidegate.schemas.message import TaskMarked
from tidegate.schemas.state import TaskState


async def test_a_mapped_task_has_an_instance_per_element_and_can_be_cleared(world: World) -> None:
    await started(world, command("list"), command("each", "list", over="list"), EmptyTask(task_id="end", upstream=("each",)))
    await world.work(result=[1, 2, 3])
    assert (await world.tasks("r1"))["each"] == "none"
    await world.work()
    assert await world.runs() == [("r1", "success")]

    await clear(world, task_ids=("list",))
    await world.work(result=["a", "b"])
    await world.work()

    assert await world.runs() == [("r1", "success")]
    elements = "SELECT state::text, try_number FROM task_instance WHERE task_index > 1000000 ORDER BY task_index"
    assert await world.rows(elements) == [("success", 2), ("success", 2), ("removed", 1)]


@pytest.mark.parametrize(
    ("result", "state"), [([], "skipped"), ({"no": "list"}, "failed"), (None, "failed"), ([0] * 10_001, "failed")]
)
async def test_a_mapped_task_without_a_fitting_list_says_so(world: World, result: Any, state: str) -> None:
    await started(world, command("list"), command("each", "list", over="list"))

    await world.work(**({} if result is None else {"result": result}))

    assert (await world.tasks("r1"))["each"] == state


async def test_one_failed_element_fails_the_mapped_task(world: World) -> None:
    await started(world, command("list"), command("each", "list", over="list"), command("after", "each"))
    await world.work(result=[1, 2])
    await world.admit()
    await world.submit()
    first, second = await world.attempts()

    await world.finish(first, "failed")
    assert (await world.tasks("r1"))["each"] == "none"
    await world.finish(second)

    assert await world.tasks("r1") == {"list": "success", "each": "failed", "after": "upstream_failed"}


async def test_a_mapped_task_that_is_cleared_alone_is_mapped_over_the_same_list(world: World) -> None:
    await started(world, command("list"), command("each", "list", over="list"))
    await world.work(result=[1, 2])
    await world.work("failed")
    assert await world.runs() == [("r1", "failed")]

    await clear(world, task_ids=("each",))
    await world.work()

    assert await world.runs() == [("r1", "success")]


@pytest.mark.parametrize("state", [TaskState.SUCCESS, TaskState.FAILED])
async def test_a_mapped_task_that_is_marked_ends_with_its_instances(world: World, state: TaskState) -> None:
    await started(world, command("list"), command("each", "list", over="list"))
    await world.work(result=[1, 2])
    await world.admit()
    await world.submit()

    await world.tell(TaskMarked(dag_id="d", run_id="r1", task_id="each", state=state))
    await world.tick()

    assert await world.runs() == [("r1", str(state))]
    assert await world.rows("SELECT count(*) FROM submission WHERE desired_state = 'kill'") == [(2,)]
    assert await world.rows("SELECT active_tasks FROM dag_run") == [(0,)]


@pytest.mark.parametrize("steps", ["", "admit", "admit submit", "work"])
async def test_a_list_that_is_cleared_alone_leaves_no_element_open(world: World, steps: str) -> None:
    """The elements of the former list stay as they are, and end by themselves."""
    await started(world, command("list"), command("each", "list", over="list"), command("last", "each"))
    await world.work(result=[1, 2])
    for step in steps.split():
        await getattr(world, step)()

    await clear(world, task_ids=("list",), downstream=False)
    for _ in range(3):
        await world.work(result=[3])

    assert await world.runs() == [("r1", "success")]
    assert await world.tasks("r1") == {"list": "success", "each": "success", "last": "success"}
    assert await world.rows("SELECT count(*) FROM submission WHERE ended_at IS NULL") == [(0,)]


@pytest.mark.parametrize("named", ["each", "each[1]"])
async def test_an_instance_has_its_retries_again_after_a_clear(world: World, named: str) -> None:
    """Whether its mapped task was cleared, or it alone."""
    each = command("each", "list", over="list", retries=1, retry_delay_s=0.0)
    await started(world, command("list"), each)
    await world.work(result=[1, 2])
    await world.admit()
    await world.submit()
    first, _ = await world.attempts()
    await world.finish(first)
    for _ in range(2):
        await world.work("failed")
    assert await world.runs() == [("r1", "failed")]

    await clear(world, task_ids=(named,))
    await world.work("failed")
    assert await world.runs() == [("r1", "running")]
    await world.work()

    assert await world.runs() == [("r1", "success")]
    tries = "SELECT try_number FROM task_instance WHERE task_index > 1000000 ORDER BY task_index"
    assert await world.rows(tries) == [(3 if named == "each" else 1,), (4,)]
