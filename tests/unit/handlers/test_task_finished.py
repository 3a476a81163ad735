"""Each end of an attempt counts once; late, repeated and unknown ones change nothing and are recorded."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from tests.shapes import NOW, A, dag_view, graph, message, pending, queued
from tests.tokens import token_of
from tests.unit.handlers.simulated_run import SimulatedRun
from tests.unit.handlers.well_formed import well_formed
from tidegate.handlers import end_deferred
from tidegate.handlers.attempt_ends import State
from tidegate.handlers.task_finished import NOT_ON_RECORD, decide
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.dag import ConsumeEvents
from tidegate.schemas.effect.run import InsertRun, RunMoved, UpdateRun
from tidegate.schemas.effect.submission import DeferEnd, EndSubmission, IgnoreFinish, KeepEnd, TakeDeferredEnd
from tidegate.schemas.effect.task import AdmitAgain, TaskMoved, UpdateTask
from tidegate.schemas.message import Message
from tidegate.schemas.state import RunState, SubmissionState, TaskState
from tidegate.schemas.time_range import EARLIEST, LATEST
from tidegate.schemas.view import DagView
from tidegate.schemas.wire.event import MAX_REASON_LENGTH, TaskFinished

TOKEN = token_of(UUID(int=1))


def ended(id_: UUID, outcome: Any = "succeeded", event_id: str = "e", **facts: Any) -> Message[TaskFinished]:
    return message(TaskFinished(submission_id=id_, outcome=outcome, **facts), event_id)


def running(*lines: str) -> tuple[SimulatedRun, UUID]:
    """A run whose first task is admitted, and its attempt."""
    world = SimulatedRun(graph(*lines))
    world.admit(lines[0].partition("*")[0])
    return world, world.attempt(lines[0].partition("*")[0])


def found(world: SimulatedRun, *dags: DagView) -> State:
    return msgspec.structs.replace(world.found(world.tasks), dags=dags)


def reasons(effects: Sequence[Effect]) -> list[str]:
    return [effect.reason for effect in effects if isinstance(effect, IgnoreFinish)]


def test_an_unknown_attempt_is_rejected_by_its_index_in_the_batch() -> None:
    world, attempt = running("a")
    stranger = uuid4()

    effects = well_formed(decide([ended(attempt), ended(stranger)], found(world)))

    assert [e for e in effects if isinstance(e, RejectMessage)] == [
        RejectMessage("unknown_attempt", f"no attempt has the submission id {stranger}", index=1)
    ]


def test_the_end_of_an_attempt_that_the_database_has_lost_is_kept_and_ignored() -> None:
    """Its token is the one that the attempt had: it is no stranger's. The number of its run is in its id."""
    world, _ = running("a")
    lost = UUID(int=7 << 80 | 5)
    state = msgspec.structs.replace(found(world), tokens={lost: TOKEN})

    effects = well_formed(decide([ended(lost, token=TOKEN), ended(lost)], state))

    (kept,) = [effect for effect in effects if isinstance(effect, KeepEnd)]
    assert (kept.submission_id, kept.token, kept.dag_run_id, kept.body["outcome"]) == (lost, TOKEN, 7, "succeeded")
    assert reasons(effects) == [NOT_ON_RECORD]
    assert [effect.reason for effect in effects if isinstance(effect, RejectMessage)] == ["unknown_attempt"]


def test_an_end_without_the_token_of_its_attempt_is_rejected_and_the_proven_one_counts() -> None:
    world, attempt = running("a")
    world.submissions[attempt] = msgspec.structs.replace(world.submissions[attempt], token=TOKEN)

    effects = list(
        decide([ended(attempt, "failed", token=token) for token in ("", "guess")] + [ended(attempt, token=TOKEN)], found(world))
    )

    rejected = [effect for effect in effects if isinstance(effect, RejectMessage)]
    assert [(each.index, each.reason) for each in rejected] == [(0, "wrong_token"), (1, "wrong_token")]
    assert [each.message.partition("; ")[0] for each in rejected] == [
        f"the end of attempt {attempt} has {which}" for which in ("no token", "another token")
    ]
    assert [e.state for e in effects if isinstance(e, EndSubmission)] == [SubmissionState.SUCCEEDED]
    assert reasons(effects) == []


def test_an_end_without_the_token_of_an_ended_attempt_is_rejected_too() -> None:
    world, attempt = running("a", "b")
    world.finish(a=True)
    world.submissions[attempt] = msgspec.structs.replace(world.submissions[attempt], token=TOKEN)

    (rejected,) = decide([ended(attempt, "failed")], found(world))

    assert isinstance(rejected, RejectMessage)


def test_a_finish_is_stored_with_all_its_fields() -> None:
    world, attempt = running("a")
    began, over = NOW - timedelta(seconds=9), NOW - timedelta(seconds=1)
    event = ended(attempt, "killed", reason="by hand", exit_code=137, started_at=began, finished_at=over)

    effects = well_formed(decide([event], found(world)))

    assert effects[0] == EndSubmission(attempt, SubmissionState.KILLED, "by hand", 137, began, over)


def test_the_times_of_a_finish_are_stored_within_the_range_of_times() -> None:
    """A backend reads them from files that a task can write."""
    world, attempt = running("a")
    event = ended(attempt, started_at=datetime.min.replace(tzinfo=UTC), finished_at=datetime.max.replace(tzinfo=UTC))

    (stored,) = (effect for effect in decide([event], found(world)) if isinstance(effect, EndSubmission))

    assert (stored.started_at, stored.ended_at) == (EARLIEST, LATEST)


def test_a_reason_is_stored_and_published_without_nul() -> None:
    world, attempt = running("a")

    effects = well_formed(decide([ended(attempt, "failed", reason="a\0b\ud800c" + "x" * 900_000)], found(world)))

    kept = "a b?c" + "x" * (MAX_REASON_LENGTH - 5)
    assert [e.reason for e in effects if isinstance(e, EndSubmission)] == [kept]
    assert [e.event.reason for e in effects if isinstance(e, TaskMoved)] == [kept]


def test_a_finish_without_a_time_was_now() -> None:
    world, attempt = running("a")

    (end, *_) = decide([ended(attempt)], found(world))

    assert isinstance(end, EndSubmission)
    assert end.ended_at == NOW


def test_a_repeated_finish_changes_nothing_and_is_recorded() -> None:
    world, attempt = running("a", "b")
    world.finish(a=True)

    effects = well_formed(decide([ended(attempt, "failed", "again")], found(world)))

    assert effects == [IgnoreFinish(attempt, "p", "again", "failed", "the attempt had already ended: succeeded")]


@pytest.mark.parametrize("state", [SubmissionState.FAILED, SubmissionState.KILLED, SubmissionState.LOST])
def test_the_reason_of_an_ignored_finish_names_the_end_of_its_attempt(state: SubmissionState) -> None:
    world, attempt = running("a", "b")
    world.submissions[attempt] = msgspec.structs.replace(world.submissions[attempt], state=state)

    assert reasons(well_formed(decide([ended(attempt)], found(world)))) == [f"the attempt had already ended: {state}"]


@pytest.mark.parametrize("state", [TaskState.NONE, TaskState.SUCCESS])
def test_the_reason_of_an_ignored_finish_names_the_state_of_its_task(state: TaskState) -> None:
    world, attempt = running("a", "b")
    world.tasks[0].state = state

    assert reasons(well_formed(decide([ended(attempt)], found(world)))) == [f"its task was in state {state} by then"]


def test_of_two_finishes_in_one_batch_the_first_counts() -> None:
    world, attempt = running("a")

    effects = well_formed(decide([ended(attempt, "succeeded", "1"), ended(attempt, "failed", "2")], found(world)))

    assert [e for e in effects if isinstance(e, IgnoreFinish)] == [
        IgnoreFinish(attempt, "p", "2", "failed", "the attempt had already ended")
    ]
    assert [e.instance.state for e in effects if isinstance(e, UpdateTask)] == [TaskState.SUCCESS]


def test_a_finish_without_an_id_is_recorded_without_one() -> None:
    world, attempt = running("a", "b")
    world.finish(a=True)
    nameless = message(TaskFinished(submission_id=attempt, outcome="failed"))

    (ignored,) = decide([nameless], found(world))

    assert ignored == IgnoreFinish(attempt, "", "", "failed", "the attempt had already ended: succeeded")


def test_a_finish_of_an_earlier_try_is_superseded() -> None:
    world, first = running("a*1")
    world.finish(a=False)
    world.retry("a")
    world.admit("a")

    effects = well_formed(decide([ended(first)], found(world)))

    assert reasons(effects) == ["try 1 was superseded by try 2"]


def test_a_finish_after_the_run_ended_changes_nothing() -> None:
    world, attempt = running("a")
    world.reconsider(stop="enough")

    effects = well_formed(decide([ended(attempt)], found(world)))

    assert [type(effect) for effect in effects] == [IgnoreFinish, EndSubmission]
    assert reasons(effects) == ["its task was in state failed by then"]


def test_of_two_finishes_after_the_run_ended_the_first_ends_the_attempt() -> None:
    world, attempt = running("a")
    world.reconsider(stop="enough")

    effects = well_formed(decide([ended(attempt, "killed", "1"), ended(attempt, "failed", "2")], found(world)))

    assert [e.state for e in effects if isinstance(e, EndSubmission)] == [SubmissionState.KILLED]
    assert reasons(effects) == ["its task was in state failed by then", "the attempt had already ended"]


def test_the_end_that_a_cleared_task_waits_for_wakes_its_pool() -> None:
    world, attempt = running("a")
    world.tasks[0].state = TaskState.SCHEDULED

    effects = well_formed(decide([ended(attempt, "killed")], found(world)))

    assert [type(effect) for effect in effects] == [IgnoreFinish, EndSubmission, AdmitAgain]
    assert effects[-1] == AdmitAgain()


@pytest.mark.parametrize(("succeeded", "state"), [(True, RunState.SUCCESS), (False, RunState.FAILED)])
def test_the_last_end_ends_the_run(succeeded: bool, state: RunState) -> None:
    world, _ = running("a")

    world.finish(a=succeeded)

    assert (world.run.state, [event.state for event in world.journal]) == (state, ["queued", "running", state])


def test_a_run_with_unfinished_tasks_keeps_running() -> None:
    world, attempt = running("a", "b < a")

    effects = well_formed(decide([ended(attempt)], found(world)))

    assert [(e.state, e.unfinished, e.end_date) for e in effects if isinstance(e, UpdateRun)] == [(RunState.RUNNING, 1, None)]
    assert not any(isinstance(effect, RunMoved) for effect in effects)


def test_only_an_ended_task_has_an_end_date() -> None:
    world, attempt = running("a*1")

    effects = well_formed(decide([ended(attempt, "failed")], found(world)))

    assert [(e.instance.state, e.dates.end_date) for e in effects if isinstance(e, UpdateTask)] == [
        (TaskState.UP_FOR_RETRY, None)
    ]


def test_the_end_of_a_run_starts_a_queued_one() -> None:
    world, attempt = running("a")
    dag = graph("a", limit=1)

    effects = well_formed(decide([ended(attempt)], found(world, dag_view(dag, running=1, queued=1, queued_runs=queued(dag, 8)))))

    assert [(e.id, e.state) for e in effects if isinstance(e, UpdateRun)] == [(1, RunState.SUCCESS), (8, RunState.RUNNING)]


def test_the_end_of_a_run_lets_pending_events_make_the_next() -> None:
    world, attempt = running("a")
    dag = dag_view(graph("a", schedule=A, limit=1), running=1, pending=(pending(5), pending(6)))

    effects = well_formed(decide([ended(attempt)], found(world, dag)))

    assert [e.id for e in effects if isinstance(e, InsertRun)] == [100]
    assert [e.events for e in effects if isinstance(e, ConsumeEvents)] == [(pending(5), pending(6))]


def test_a_run_that_keeps_running_keeps_its_slot() -> None:
    world, attempt = running("a", "b < a")
    dag = graph("a", limit=1)

    effects = well_formed(decide([ended(attempt)], found(world, dag_view(dag, running=1, queued=1, queued_runs=queued(dag, 8)))))

    assert [effect.id for effect in effects if isinstance(effect, UpdateRun)] == [1]


def test_the_end_of_an_attempt_that_is_locked_out_is_deferred_unless_it_is_not_its_end() -> None:
    world, attempt = running("a")
    world.submissions[attempt] = msgspec.structs.replace(world.submissions[attempt], token=TOKEN)
    state = msgspec.structs.replace(found(world), locked_out=frozenset({attempt}))
    own = ended(attempt, token=TOKEN)

    effects = list(decide([own, ended(attempt), msgspec.structs.replace(own, id=None)], state))

    deferred = [effect for effect in effects if isinstance(effect, DeferEnd)]
    assert [(type(effect).__name__, getattr(effect, "index", 0)) for effect in effects if effect not in deferred] == [
        ("RejectMessage", 1)
    ]
    assert [(each.submission_id, each.dag_run_id, each.event_id) for each in deferred] == [
        (attempt, state.submissions[attempt].dag_run_id, id_) for id_ in ("e", "")
    ]
    assert {msgspec.json.decode(each.body, type=TaskFinished) for each in deferred} == {own.body}


@pytest.mark.parametrize(
    ("facts", "taken"),
    [
        pytest.param({}, [7], id="its row is free"),
        pytest.param({"locked_out": frozenset({UUID(int=9)})}, [], id="its row is still held"),
        pytest.param({"held": {UUID(int=9): "d"}}, [], id="its DAG is held"),
        pytest.param({"submissions": {}}, [7], id="its run was deleted"),
    ],
)
def test_a_deferred_end_is_applied_once_its_row_is_free(facts: dict[str, Any], taken: list[int]) -> None:
    world, attempt = running("a")
    state = found(world)
    known = {UUID(int=9): state.submissions[attempt]}
    state = msgspec.structs.replace(state, **{"submissions": known, **facts})

    effects = list(end_deferred.decide([], end_deferred.State({7: ended(UUID(int=9))}, state)))

    assert [effect.id for effect in effects if isinstance(effect, TakeDeferredEnd)] == taken
    assert not [effect for effect in effects if isinstance(effect, RejectMessage | DeferEnd)]
