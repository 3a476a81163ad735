"""Users end and mark runs and tasks, whatever is at work."""

from typing import Any

import pytest

from tests.integration.engine.chains import clear, command, moves, started
from tests.integration.engine.world import World
from tidegate.schemas.message import ClearRequested, RunEndRequested, TaskMarked
from tidegate.schemas.state import RunState, TaskState


async def test_a_run_that_is_cancelled_has_failed_and_its_attempts_are_killed(world: World) -> None:
    await started(world, runs=2, max_active_runs=1)
    await world.admit()
    await world.submit()

    await world.tell(RunEndRequested(dag_id="d", run_id="r1", state=RunState.FAILED, reason="cancelled by ann"))

    assert await world.runs() == [("r1", "failed"), ("r2", "running")]
    assert await world.tasks("r1") == {"a": "failed", "b": "skipped", "c": "skipped"}
    assert await world.rows("SELECT desired_state, kill_reason FROM submission") == [("kill", "cancelled by ann")]


async def test_a_queued_run_can_be_cancelled(world: World) -> None:
    await started(world, runs=2, max_active_runs=1)

    await world.tell(RunEndRequested(dag_id="d", run_id="r2", state=RunState.FAILED, reason="cancelled by ann"))

    assert await world.runs() == [("r1", "running"), ("r2", "failed")]
    assert await moves(world, "r2") == ["queued", "failed"]


async def test_a_failed_run_can_be_marked_as_succeeded(world: World) -> None:
    await started(world)
    await world.work("failed")

    await world.tell(RunEndRequested(dag_id="d", run_id="r1", state=RunState.SUCCESS, reason="marked by ann"))

    assert await world.runs() == [("r1", "success")]
    assert set((await world.tasks("r1")).values()) == {"success"}


async def test_a_task_marked_as_succeeded_lets_the_run_go_on(world: World) -> None:
    await started(world)
    await world.work("failed")
    assert await world.runs() == [("r1", "failed")]

    await world.tell(TaskMarked(dag_id="d", run_id="r1", task_id="a", state=TaskState.SUCCESS))
    await world.tick()
    assert await world.tasks("r1") == {"a": "success", "b": "scheduled", "c": "none"}
    for _ in range(2):
        await world.work()

    assert await world.runs() == [("r1", "success")]


async def test_a_task_that_was_marked_while_at_work_and_cleared_waits_until_its_attempt_has_ended(world: World) -> None:
    await started(world, command("a"))
    await world.admit()
    await world.submit()
    (attempt,) = await world.attempts()
    await world.tell(TaskMarked(dag_id="d", run_id="r1", task_id="a", state=TaskState.SUCCESS))
    await clear(world)
    await world.admit()
    assert await world.tasks("r1") == {"a": "scheduled"}

    await world.finish(attempt, "killed")
    await world.admit()

    assert await world.tasks("r1") == {"a": "queued"}


async def test_tasks_that_wait_for_their_attempts_block_no_other_task(world: World) -> None:
    await started(world, command("a", priority_weight=9), command("b"))
    await world.admit(limit=1)
    await world.submit()
    await world.tell(TaskMarked(dag_id="d", run_id="r1", task_id="a", state=TaskState.SUCCESS))
    await clear(world, task_ids=("a",))

    await world.admit(limit=1)

    assert await world.tasks("r1") == {"a": "scheduled", "b": "queued"}


async def test_a_task_marked_as_failed_gives_up_what_comes_after_it(world: World) -> None:
    await started(world)
    await world.work()

    await world.tell(TaskMarked(dag_id="d", run_id="r1", task_id="a", state=TaskState.FAILED))
    await world.tick()

    assert (await world.tasks("r1"))["a"] == "failed"


async def test_a_run_at_work_that_is_marked_as_succeeded_has_its_attempts_killed(world: World) -> None:
    await started(world)
    await world.admit()
    await world.submit()

    await world.tell(RunEndRequested(dag_id="d", run_id="r1", state=RunState.SUCCESS, reason="marked by ann"))

    assert await world.runs() == [("r1", "success")]
    assert await world.rows("SELECT desired_state FROM submission") == [("kill",)]


async def test_what_waits_to_be_submitted_ends_by_being_killed(world: World) -> None:
    await started(world, command("a"))
    await world.admit()

    await clear(world)
    assert await world.tasks("r1") == {"a": "queued"}
    await world.submit()

    assert await world.tasks("r1") == {"a": "scheduled"}
    assert await world.rows("SELECT state::text, reason FROM submission") == [("killed", "cleared by a user")]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (ClearRequested(dag_id="other", run_id="r1"), "no_such_dag"),
        (ClearRequested(dag_id="d", run_id="other"), "nothing_to_clear"),
        (ClearRequested(dag_id="d", run_id="r1", task_ids=("a", "other")), "no_such_task"),
        (RunEndRequested(dag_id="other", run_id="r1", state=RunState.FAILED, reason=""), "no_such_dag"),
        (RunEndRequested(dag_id="d", run_id="other", state=RunState.FAILED, reason=""), "no_such_run"),
        (TaskMarked(dag_id="other", run_id="r1", task_id="a", state=TaskState.FAILED), "no_such_dag"),
        (TaskMarked(dag_id="d", run_id="other", task_id="a", state=TaskState.FAILED), "no_such_run"),
        (TaskMarked(dag_id="d", run_id="r1", task_id="other", state=TaskState.FAILED), "no_such_task"),
    ],
)
async def test_what_there_is_not_cannot_be_changed(world: World, asked: Any, reason: str) -> None:
    await started(world)

    applied = await world.tell(asked)

    assert [each.reason for each in applied.rejected] == [reason]
