"""Results of tasks are stored if they are small and can be."""

from typing import Any

import msgspec
import pytest

from tests.shapes import graph
from tests.unit.handlers.simulated_run import SimulatedRun
from tidegate.schemas.run import MAX_PUBLISHED, MAX_RESULT_BYTES
from tidegate.schemas.state import KillCause, TaskState
from tidegate.schemas.wire.event import DatasetUpdated, TaskFinished


def returned(result: Any, outcome: Any = "succeeded", **facts: Any) -> SimulatedRun:
    world = SimulatedRun(graph("a", "b < a"))
    world.admit("a")
    world.finish_with(TaskFinished(submission_id=world.attempt("a"), outcome=outcome, result=result, **facts))
    return world


@pytest.mark.parametrize(
    "result",
    [0, False, "", [], {}, {"rows": 7}, "u0000", "\\u0000", "x" * (MAX_RESULT_BYTES - 2)],
    ids=lambda value: repr(value)[:9],
)
def test_the_result_of_a_task_is_stored(result: Any) -> None:
    world = returned(result)

    assert world.results == {0: result}
    assert world.states() == {"a": TaskState.SUCCESS, "b": TaskState.SCHEDULED}


def test_no_result_is_stored_for_a_task_that_returns_nothing() -> None:
    assert returned(None).results == {}


def test_the_result_of_an_attempt_that_was_cleared_is_not_stored() -> None:
    world = SimulatedRun(graph("a", "b < a"))
    world.admit("a")
    attempt = world.attempt("a")
    world.submissions[attempt] = msgspec.structs.replace(world.submissions[attempt], kill_cause=KillCause.CLEARED)
    world.finish_with(TaskFinished(submission_id=attempt, outcome="succeeded", result=[1, 2]))

    assert world.results == {}
    assert world.states() == {"a": TaskState.NONE, "b": TaskState.NONE}


def test_the_result_of_a_task_whose_events_cannot_be_published_is_not_stored() -> None:
    events = (DatasetUpdated(uri="s://a"),) * (MAX_PUBLISHED + 1)
    world = returned(7, events=events)

    assert world.results == {}
    assert world.states() == {"a": TaskState.FAILED, "b": TaskState.UPSTREAM_FAILED}


@pytest.mark.parametrize("outcome", ["failed", "skipped", "killed", "lost"])
def test_no_result_is_stored_for_a_task_that_did_not_succeed(outcome: str) -> None:
    assert returned(7, outcome).results == {}


@pytest.mark.parametrize(
    ("result", "said"),
    [
        pytest.param("x" * (MAX_RESULT_BYTES - 1), "the task returned more than 65536 bytes", id="too much"),
        pytest.param({"a\0": 1}, "the task returned a NUL character, which cannot be stored", id="a NUL character"),
        pytest.param("\\\0", "the task returned a NUL character, which cannot be stored", id="after a backslash"),
    ],
)
def test_a_task_whose_result_cannot_be_stored_fails_with_the_reason(result: Any, said: str) -> None:
    world = returned(result)

    assert world.results == {}
    assert world.states() == {"a": TaskState.FAILED, "b": TaskState.UPSTREAM_FAILED}
    (reason,) = (event.reason for event in world.published if event.state == "failed")
    assert said in reason
