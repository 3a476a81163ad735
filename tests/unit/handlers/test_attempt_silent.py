"""Attempts without a heartbeat are lost, unless one has come meanwhile."""

from uuid import UUID

import msgspec
import pytest

from tests.shapes import graph, message
from tests.unit.handlers.simulated_run import SimulatedRun
from tidegate.handlers.attempt_silent import State, decide
from tidegate.schemas.effect.submission import EndSubmission
from tidegate.schemas.effect.task import AdmitAgain, UpdateTask
from tidegate.schemas.message import AttemptSilent, Message
from tidegate.schemas.state import SubmissionState, TaskState


def lapsed(id_: UUID) -> Message[AttemptSilent]:
    return message(AttemptSilent(submission_id=id_, silent_s=60.0))


def running() -> tuple[SimulatedRun, UUID]:
    world = SimulatedRun(graph("a*1"))
    world.admit("a")
    return world, world.attempt("a")


@pytest.mark.parametrize(
    ("host", "reason"), [("here", "host here is lost: no heartbeat for 60 s"), (None, "no heartbeat for 60 s")]
)
def test_an_attempt_without_a_heartbeat_is_lost_and_its_task_is_retried(host: str | None, reason: str) -> None:
    world, attempt = running()
    world.submissions[attempt] = msgspec.structs.replace(world.submissions[attempt], host=host)

    effects = list(decide([lapsed(attempt)], State(world.found(world.tasks), frozenset({attempt}))))

    (end,) = (effect for effect in effects if isinstance(effect, EndSubmission))
    assert (end.state, end.reason) == (SubmissionState.LOST, reason)
    assert [effect.instance.state for effect in effects if isinstance(effect, UpdateTask)] == [TaskState.UP_FOR_RETRY]


def test_an_attempt_with_a_new_heartbeat_stays_open() -> None:
    world, attempt = running()

    effects = list(decide([lapsed(attempt)], State(world.found(world.tasks), frozenset())))

    assert effects == []


def test_an_attempt_that_has_ended_meanwhile_stays_ended() -> None:
    world, attempt = running()
    world.finish(a=False)

    effects = list(decide([lapsed(attempt)], State(world.found(world.tasks), frozenset({attempt}))))

    assert effects == []


def test_an_attempt_in_two_messages_is_lost_once() -> None:
    world, attempt = running()

    effects = list(decide([lapsed(attempt), lapsed(attempt)], State(world.found(world.tasks), frozenset({attempt}))))

    assert len([effect for effect in effects if isinstance(effect, EndSubmission)]) == 1


def test_the_loss_that_a_cleared_task_waits_for_wakes_its_pool() -> None:
    world, attempt = running()
    world.tasks[0].state = TaskState.SCHEDULED

    effects = list(decide([lapsed(attempt)], State(world.found(world.tasks), frozenset({attempt}))))

    assert [type(effect) for effect in effects] == [EndSubmission, AdmitAgain]
