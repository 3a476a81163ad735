"""Attempts of a host that lost its daemon before they began: killed, then ended, so that other hosts run their tasks."""

from typing import Any
from uuid import UUID

import pytest

from tests.shapes import graph, message
from tests.unit.handlers.simulated_run import SimulatedRun
from tests.unit.handlers.test_attempt_stuck import seen
from tidegate.handlers.attempt_unreachable import State, decide
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.submission import EndSubmission, KillSubmissions
from tidegate.schemas.effect.task import UpdateTask
from tidegate.schemas.message import AttemptUnreachable
from tidegate.schemas.state import KillCause, SubmissionState, TaskState

REASON = "host there lost its daemon before attempt 1 began"


def submitting(**facts: Any) -> tuple[SimulatedRun, UUID]:
    world = SimulatedRun(graph("a"))
    world.admit("a")
    return world, seen(world, state=SubmissionState.SUBMITTING, host="there", **facts)


def looked_at(world: SimulatedRun, attempt: UUID, *, is_unreachable: bool = True, times: int = 1) -> list[Effect]:
    unreachable = frozenset({attempt} if is_unreachable else ())
    messages = [message(AttemptUnreachable(submission_id=attempt, absent_s=10.0)) for _ in range(times)]
    return list(decide(messages, State(world.found(world.tasks), unreachable)))


def test_an_unreachable_attempt_is_killed_first() -> None:
    world, attempt = submitting()

    assert looked_at(world, attempt, times=2) == [KillSubmissions(1, 0, REASON, KillCause.NOT_SUBMITTED)]


@pytest.mark.parametrize(
    ("cause", "before", "state"),
    [
        (KillCause.NOT_SUBMITTED, 0, TaskState.SCHEDULED),
        (KillCause.NOT_SUBMITTED, 2, TaskState.FAILED),
        (KillCause.CLEARED, 0, TaskState.NONE),
        (KillCause.STOPPED, 0, TaskState.FAILED),
    ],
)
def test_a_killed_one_has_ended_as_its_kill_means(cause: KillCause, before: int, state: TaskState) -> None:
    world, attempt = submitting(kill_reason=REASON, kill_cause=cause, killed_before=before)

    effects = looked_at(world, attempt, times=2)

    assert [(e.state, e.reason) for e in effects if isinstance(e, EndSubmission)] == [(SubmissionState.KILLED, REASON)]
    assert [e.instance.state for e in effects if isinstance(e, UpdateTask)] == [state]


def test_an_attempt_whose_host_has_a_daemon_again_goes_on() -> None:
    world, attempt = submitting()

    assert looked_at(world, attempt, is_unreachable=False) == []
