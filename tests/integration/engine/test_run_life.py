"""Runs from their start to their end and back: limits, timeouts, clearing, ending and marking."""

import msgspec
import pytest

from tests.integration.engine.chains import clear, command, started
from tests.integration.engine.world import World, utc
from tests.tokens import token_of
from tidegate.handlers import clear_requested
from tidegate.schemas.dag import DagSpec, TriggerRule
from tidegate.schemas.message import ClearRequested, RunEndRequested, RunReconsidered, RunRequested, RunsCancelled, TaskMarked
from tidegate.schemas.queries import holds, runs
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.wire.event import DagRunStateChanged, TaskFinished


async def test_r14_when_a_run_times_out_the_next_one_starts_at_once(world: World) -> None:
    await started(world, runs=2, max_active_runs=1, run_timeout_s=60.0)
    await world.admit()
    await world.submit()

    await world.wait(seconds=60)

    assert await world.runs() == [("r1", "failed"), ("r2", "running")]
    assert await world.tasks("r1") == {"a": "skipped", "b": "skipped", "c": "skipped"}
    sql = "SELECT desired_state, kill_reason FROM submission"
    assert await world.rows(sql) == [("kill", "the run took longer than its dagrun_timeout, 60 s")]


async def test_an_attempt_that_was_killed_with_its_run_ends_without_a_trace_in_it(world: World) -> None:
    await started(world, run_timeout_s=60.0)
    await world.admit()
    await world.submit()
    (attempt,) = await world.attempts()
    await world.wait(seconds=60)

    await world.finish(attempt, "killed")

    assert await world.rows("SELECT state::text FROM submission") == [("killed",)]
    assert await world.tasks("r1") == {"a": "skipped", "b": "skipped", "c": "skipped"}
    assert await world.rows("SELECT reason FROM ignored_finish") == [("its task was in state skipped by then",)]


async def test_an_attempt_that_takes_too_long_is_killed_and_tried_again(world: World) -> None:
    await started(world, command("a", execution_timeout_s=30.0, retries=1, retry_delay_s=10.0))
    await world.admit()
    await world.submit()
    (attempt,) = await world.attempts()

    await world.wait(seconds=30)
    assert await world.rows("SELECT desired_state, kill_reason FROM submission") == [
        ("kill", "it took longer than its execution_timeout, 30 s")
    ]
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


async def test_a_request_to_reconsider_a_run_that_does_not_exist_is_done_without_an_effect(world: World) -> None:
    await started(world, command("work"))
    await world.rows("INSERT INTO run_to_reconsider (dag_run_id, stop_reason) VALUES (4711, 'a test')")
    await world.rows("INSERT INTO run_to_reconsider (dag_run_id) SELECT id FROM dag_run")

    await world.tell(*(RunReconsidered(dag_run_id=id_) for id_ in await world.database.run(runs.to_reconsider, 2)))

    assert await world.rows("SELECT dag_run_id FROM run_to_reconsider") == []
    assert await world.runs() == [("r1", "running")]


async def test_a_failure_that_was_cleared_at_once_ends_no_run(world: World) -> None:
    await started(world, command("a"), command("b"), fail_fast=True)
    await world.admit()
    await world.submit()
    first, _ = await world.attempts()
    await world.tell(TaskFinished(submission_id=first, token=token_of(first), outcome="failed"))

    await clear(world, task_ids=("a",))

    assert await world.runs() == [("r1", "running")]
    assert await world.tasks("r1") == {"a": "scheduled", "b": "running"}


@pytest.mark.parametrize("limit", ["MAX_CLEARED_RUNS", "MAX_CLEARED_TASKS"])
async def test_too_many_runs_are_not_cleared_at_once(world: World, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    await started(world, command("a"), runs=2)
    await world.work("failed")
    monkeypatch.setattr(clear_requested, limit, 1)

    applied = await world.tell(ClearRequested(dag_id="d"))
    await world.tell(ClearRequested(dag_id="d", run_id="r1"))

    assert [each.reason for each in applied.rejected] == ["too_many_runs"]
    assert applied.rejected[0].message.startswith("these are 2 runs; one request clears at most")
    assert await world.runs() == [("r1", "queued"), ("r2", "failed")]


async def test_failures_in_a_row_pause_the_dag(world: World) -> None:
    await started(world, command("a"), runs=3, max_failed_runs=2, max_active_runs=1)
    await world.work("failed")
    await world.work("succeeded")
    assert await world.rows("SELECT is_paused, failed_runs FROM dag") == [(False, 0)]
    await world.work("failed")
    await world.tell(RunRequested(dag_id="d", run_id="r4", conf={}))

    await world.work("failed")

    assert await world.rows("SELECT is_paused, failed_runs FROM dag") == [(True, 2)]


async def test_a_run_that_fails_again_after_a_clear_counts_once_until_it_is_marked(world: World) -> None:
    await started(world, command("a"), max_failed_runs=2)
    await world.work("failed")
    await world.tell(ClearRequested(dag_id="d", run_id="r1", only_failed=True))
    await world.tick()
    await world.work("failed")
    failed = await world.rows("SELECT is_paused, failed_runs FROM dag")

    await world.tell(RunEndRequested(dag_id="d", run_id="r1", state=RunState.SUCCESS, reason="fine"))

    assert failed == [(False, 1)]
    assert await world.rows("SELECT is_paused, failed_runs FROM dag") == [(False, 0)]


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


WAITING = command("a", depends_on_past=True)


async def test_a_run_that_waits_for_one_of_a_version_that_did_not_wait_starts_after_it(world: World) -> None:
    await started(world, command("a"), max_active_runs=2)
    await world.file(DagSpec(dag_id="d", tasks=(WAITING,), max_active_runs=2))
    await world.tell(RunRequested(dag_id="d", run_id="r2", conf={}, logical_date=utc(2024, 4, 2)))
    await world.reconsider()
    before = await world.tasks("r2")

    await world.work()

    assert (before, await world.tasks("r2")) == ({"a": "none"}, {"a": "scheduled"})


async def test_a_run_goes_on_after_the_one_before_it_was_cleared_on_a_version_that_does_not_wait(world: World) -> None:
    await started(world, WAITING, runs=2)
    await world.work("failed")
    await world.file(DagSpec(dag_id="d", tasks=(command("a"),)))
    await clear(world, newest_version=True)
    await world.work()
    waiting = await world.tasks("r2")

    await world.database.run(runs.reconsider_after_other_versions)
    await world.reconsider()

    assert (waiting, await world.tasks("r2")) == ({"a": "none"}, {"a": "scheduled"})


async def test_an_end_reconsiders_the_next_run_only(world: World) -> None:
    await started(world, WAITING, runs=3)
    await world.admit()
    await world.submit()
    (attempt,) = await world.attempts()

    await world.tell(TaskFinished(submission_id=attempt, token=token_of(attempt), outcome="succeeded"))

    sql = "SELECT run_id FROM run_to_reconsider JOIN dag_run ON id = dag_run_id"
    assert await world.rows(sql) == [("r2",)]


async def last_failure(world: World, run_id: str = "r1") -> tuple[str, list[str]]:
    """Why a run failed at last, as its event says, and the failed tasks that this names."""
    sql = "SELECT payload FROM outbox WHERE kind = 'dag-run-state' AND key LIKE '%' || $1 ORDER BY id DESC LIMIT 1"
    ((payload,),) = await world.rows(sql, run_id)
    event = msgspec.json.decode(payload, type=DagRunStateChanged)
    assert event.state == "failed"
    return event.reason, [task.label for task in event.failed_tasks or ()]


async def test_a_run_names_an_earlier_failure_that_its_last_task_did_not_outweigh(world: World) -> None:
    await started(world, command("a"), command("b"), command("end", "a", "b", trigger_rule=TriggerRule.ONE_SUCCESS))
    await world.admit()
    await world.submit()

    for attempt in await world.attempts():
        await world.finish(attempt, "failed")

    assert await last_failure(world) == ("task a failed in try 1; so did b", ["a", "b"])


async def test_a_run_that_is_to_fail_fast_names_its_failed_task(world: World) -> None:
    await started(world, command("a"), command("b"), fail_fast=True)
    await world.admit()
    await world.submit()
    first, _ = await world.attempts()

    await world.finish(first, "failed", reason="no disk")

    assert await last_failure(world) == ("task a failed in try 1: no disk; the DAG has fail_fast", ["a"])


async def test_a_run_whose_last_task_a_user_fails_names_its_failed_tasks(world: World) -> None:
    await started(world, command("a"), command("b"))
    await world.admit()
    await world.submit()
    first, _ = await world.attempts()
    await world.finish(first, "failed", reason="no disk")

    await world.tell(TaskMarked(dag_id="d", run_id="r1", task_id="b", state=TaskState.FAILED, user="anna"))
    await world.tick()

    assert await last_failure(world) == ("task a failed in try 1: no disk; so did b", ["a", "b"])


@pytest.mark.parametrize("is_held", [False, True], ids=["free", "held"])
async def test_runs_are_cancelled_together_also_of_a_held_dag(world: World, *, is_held: bool) -> None:
    await started(world, runs=3, max_active_runs=2)
    await world.work()
    if is_held:
        await world.database.run(holds.hold, {"d": "a fault"})

    await world.tell(RunsCancelled(dag_id="d", run_ids=("r1", "r2", "r3", "r9"), reason="cancelled by anna"))
    await world.tick()

    assert await world.runs() == [("r1", "failed"), ("r2", "failed"), ("r3", "failed")]
    assert await world.tasks("r1") == {"a": "success", "b": "skipped", "c": "skipped"}


async def test_no_run_of_an_unknown_dag_is_cancelled(world: World) -> None:
    applied = await world.tell(RunsCancelled(dag_id="d", run_ids=("r1",), reason="cancelled by anna"))

    assert [rejected.reason for rejected in applied.rejected] == ["no_such_dag"]


async def test_runs_are_cleared_by_their_ids(world: World) -> None:
    await started(world, command("a"), runs=3)
    await world.work()

    await clear(world, None, run_ids=("r1", "r3", "r9"))
    nothing = await world.tell(ClearRequested(dag_id="d", run_ids=("r9",)))

    assert await world.runs() == [("r1", "running"), ("r2", "success"), ("r3", "running")]
    assert [rejected.message for rejected in nothing.rejected] == ["DAG 'd' has no run of these ids"]
