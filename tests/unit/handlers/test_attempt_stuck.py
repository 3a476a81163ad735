"""Attempts that are not submitted in time: queued again twice, then failed."""

from typing import Any
from uuid import UUID

import msgspec
import pytest

from tests.shapes import NOW, graph, message
from tests.unit.handlers.simulated_run import SimulatedRun
from tidegate.handlers import attempt_stuck
from tidegate.handlers.load import LockedAttempts
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.message import AttemptStuck
from tidegate.schemas.state import KillCause, SubmissionState, TaskState
from tidegate.schemas.wire.event import TaskFinished

NOT_SUBMITTED = "attempt 1 was not submitted within 600 s"
STUCK = {"kill_reason": NOT_SUBMITTED, "kill_cause": KillCause.NOT_SUBMITTED}


def queued(tasks: str = "a*1", **facts: Any) -> tuple[SimulatedRun, UUID]:
    """A task whose attempt is to be submitted."""
    world = SimulatedRun(graph(tasks))
    world.admit("a")
    return world, seen(world, **facts)


def seen(world: SimulatedRun, **facts: Any) -> UUID:
    attempt = world.attempt("a")
    world.submissions[attempt] = msgspec.structs.replace(world.submissions[attempt], **facts)
    return attempt


def looked_at(world: SimulatedRun, attempt: UUID) -> list[Effect]:
    state = LockedAttempts(NOW, {}, {}, {attempt: world.submissions[attempt]}, {})
    return list(attempt_stuck.decide([message(AttemptStuck(submission_id=attempt, queued_s=600))], state))


@pytest.mark.parametrize("state", [SubmissionState.INTENT, SubmissionState.SUBMITTING])
def test_an_attempt_that_is_not_submitted_in_time_is_killed(state: SubmissionState) -> None:
    world, attempt = queued(state=state)

    assert looked_at(world, attempt) == [KillSubmissions(1, 0, NOT_SUBMITTED, KillCause.NOT_SUBMITTED)]


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"state": SubmissionState.ACCEPTED}, id="it was submitted after all"),
        pytest.param({"state": SubmissionState.INTENT, "kill_reason": "cleared by a user"}, id="it is being killed"),
    ],
)
def test_an_attempt_that_is_not_stuck_any_more_is_not_killed(facts: dict[str, Any]) -> None:
    world, attempt = queued(**facts)

    assert looked_at(world, attempt) == []


@pytest.mark.parametrize("outcome", ["killed", "lost"])
@pytest.mark.parametrize(("before", "state"), [(0, TaskState.SCHEDULED), (1, TaskState.SCHEDULED), (2, TaskState.UP_FOR_RETRY)])
def test_a_stuck_task_is_queued_again_twice_and_the_third_time_is_a_failure(outcome: str, before: int, state: TaskState) -> None:
    world, attempt = queued(**STUCK, killed_before=before)

    world.finish_with(msgspec.convert({"submission_id": attempt, "outcome": outcome, "reason": "gone"}, TaskFinished))

    assert world.states() == {"a": state}
    assert world.published[-1].state == state
    world.check_run()


@pytest.mark.parametrize(("before", "state"), [(3, TaskState.SCHEDULED), (4, TaskState.SCHEDULED), (5, TaskState.UP_FOR_RETRY)])
def test_the_next_try_is_queued_again_twice_too(before: int, state: TaskState) -> None:
    world, attempt = queued("a*2", **STUCK, killed_before=before)

    world.finish_with(TaskFinished(submission_id=attempt, outcome="killed"))

    assert world.states() == {"a": state}


def test_an_attempt_that_was_not_submitted_is_no_try() -> None:
    world, attempt = queued("a", **STUCK)
    world.finish_with(TaskFinished(submission_id=attempt, outcome="killed"))
    world.admit("a")

    assert (world.tasks[0].try_number, world.tasks[0].max_tries) == (2, 2)


def test_the_reason_of_a_stuck_task_is_published() -> None:
    world, attempt = queued("a", **STUCK, killed_before=2)

    world.finish_with(TaskFinished(submission_id=attempt, outcome="killed"))

    assert (world.published[-1].state, world.published[-1].reason) == (TaskState.FAILED, NOT_SUBMITTED)


def test_a_stuck_attempt_that_succeeds_has_succeeded() -> None:
    world, attempt = queued("a", **STUCK)

    world.finish_with(TaskFinished(submission_id=attempt, outcome="succeeded"))

    assert world.states() == {"a": TaskState.SUCCESS}
