"""Runs from their start to their end and back: limits, timeouts, clearing, ending and marking (SEMANTICS 3, 9.4)."""

from typing import Any

import pytest

from tests.integration.engine.world import World, states, utc
from tidegate.schemas.dag import CommandTask, DagSpec, EmptyTask, TaskSpec
from tidegate.schemas.message import ClearRequested, RunEndRequested, RunRequested, TaskMarked
from tidegate.schemas.state import RunState, TaskState


def command(task_id: str, *upstream: str, **facts: Any) -> CommandTask:
    return CommandTask(task_id=task_id, upstream=upstream, argv=("true",), **facts)


CHAIN = (command("a"), command("b", "a"), command("c", "b"))


async def started(world: World, *tasks: TaskSpec, runs: int = 1, **facts: Any) -> None:
    """A DAG, and runs r1, r2, … of it."""
    await world.file(DagSpec(dag_id="d", tasks=tasks or CHAIN, **facts))
    for number in range(1, runs + 1):
        await world.tell(RunRequested(dag_id="d", run_id=f"r{number}", conf={}, logical_date=utc(2024, 4, number)))
    await world.reconsider()


async def clear(world: World, run_id: str | None = "r1", **facts: Any) -> None:
    await world.tell(ClearRequested(dag_id="d", run_id=run_id, **facts))
    await world.tick()


async def moves(world: World, run_id: str = "r1") -> list[str]:
    sql = """
        SELECT log.state::text FROM run_state_log AS log JOIN dag_run AS run ON run.id = log.dag_run_id
        WHERE run.run_id = $1 ORDER BY log.seq
    """
    return [row[0] for row in await world.rows(sql, run_id)]


async def test_r12_of_runs_cleared_at_once_no_more_start_than_may(world: World) -> None:
    await started(world, command("a"), runs=3, max_active_runs=1)
    for _ in range(3):
        await world.work()
    assert states(await world.runs()) == ["success"] * 3

    await clear(world, None)

    assert states(await world.runs()) == ["running", "queued", "queued"]


async def test_r14_when_a_run_times_out_the_next_one_starts_at_once(world: World) -> None:
    await started(world, runs=2, max_active_runs=1, run_timeout_s=60.0)
    await world.admit()
    await world.submit()

    await world.wait(seconds=60)

    assert await world.runs() == [("r1", "failed"), ("r2", "running")]
    assert await world.tasks("r1") == {"a": "skipped", "b": "skipped", "c": "skipped"}
    sql = "SELECT desired_state, kill_reason FROM submission"
    assert await world.rows(sql) == [("kill", "the run took longer than 60 s")]


async def test_an_attempt_that_was_killed_with_its_run_ends_without_a_trace_in_it(world: World) -> None:
    await started(world, run_timeout_s=60.0)
    await world.admit()
    await world.submit()
    (attempt,) = await world.attempts()
    await world.wait(seconds=60)

    await world.finish(attempt, "killed")

    assert await world.rows("SELECT state::text FROM submission") == [("killed",)]
    assert await world.tasks("r1") == {"a": "skipped", "b": "skipped", "c": "skipped"}
    assert await world.rows("SELECT reason FROM ignored_finish") == [("its task was skipped by then",)]


async def test_an_attempt_that_takes_too_long_is_killed_and_tried_again(world: World) -> None:
    await started(world, command("a", execution_timeout_s=30.0, retries=1, retry_delay_s=10.0))
    await world.admit()
    await world.submit()
    (attempt,) = await world.attempts()

    await world.wait(seconds=30)
    assert await world.rows("SELECT desired_state, kill_reason FROM submission") == [("kill", "it took longer than 30 s")]
    await world.finish(attempt, "killed")
    assert await world.tasks("r1") == {"a": "up_for_retry"}
    await world.wait(seconds=10)
    await world.work()

    assert await world.runs() == [("r1", "success")]


async def test_a_retry_is_due_exactly_after_its_delay(world: World) -> None:
    await started(world, command("a", retries=1, retry_delay_s=90.0))
    await world.work("failed")

    await world.wait(seconds=89)
    assert await world.tasks("r1") == {"a": "up_for_retry"}
    await world.wait(seconds=1)

    assert await world.tasks("r1") == {"a": "scheduled"}


async def test_the_first_failure_ends_the_run_of_a_dag_that_is_to_fail_fast(world: World) -> None:
    await started(world, command("a"), command("b"), command("c"), command("d", "c"), fail_fast=True)
    await world.admit()
    await world.submit()
    first, *_ = await world.attempts()

    await world.finish(first, "failed")

    assert await world.runs() == [("r1", "failed")]
    assert await world.tasks("r1") == {"a": "failed", "b": "failed", "c": "failed", "d": "skipped"}
    assert await world.rows("SELECT count(*) FROM submission WHERE desired_state = 'kill'") == [(2,)]


async def test_failures_in_a_row_pause_the_dag(world: World) -> None:
    await started(world, command("a"), runs=3, max_failed_runs=2, max_active_runs=1)
    await world.work("failed")
    await world.work("succeeded")
    assert await world.rows("SELECT is_paused, failed_runs FROM dag") == [(False, 0)]
    await world.work("failed")
    await world.tell(RunRequested(dag_id="d", run_id="r4", conf={}))

    await world.work("failed")

    assert await world.rows("SELECT is_paused, failed_runs FROM dag") == [(True, 2)]


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

    await clear(world, task_ids=("b",), newest=True)
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


async def test_a_task_marked_as_failed_gives_up_what_comes_after_it(world: World) -> None:
    await started(world)
    await world.work()

    await world.tell(TaskMarked(dag_id="d", run_id="r1", task_id="a", state=TaskState.FAILED))
    await world.tick()

    assert (await world.tasks("r1"))["a"] == "failed"


@pytest.mark.parametrize(
    ("past", "outcomes", "expected"),
    [
        ({"depends_on_past": True}, ["failed"], "none"),
        ({"depends_on_past": True}, ["succeeded"], "scheduled"),
        ({"wait_for_downstream": True, "depends_on_past": True}, ["succeeded"], "none"),
        ({"wait_for_downstream": True, "depends_on_past": True}, ["succeeded", "succeeded"], "scheduled"),
    ],
)
async def test_a_task_waits_for_the_run_before(world: World, past: dict[str, bool], outcomes: list[str], expected: str) -> None:
    await started(world, command("a", **past), command("b", "a"), runs=2)
    assert (await world.tasks("r2"))["a"] == "none"

    for outcome in outcomes:
        await world.work(outcome)

    assert (await world.tasks("r2"))["a"] == expected


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
