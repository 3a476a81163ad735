"""What a task returns is kept for the tasks after it, if it is small."""

from typing import Any

import pytest

from tests.shapes import graph
from tests.unit.handlers.world import World
from tidegate.schemas.run import MAX_RESULT_BYTES
from tidegate.schemas.state import TaskState
from tidegate.schemas.wire.event import TaskFinished


def returned(result: Any, outcome: Any = "succeeded") -> World:
    world = World(graph("a", "b < a"))
    world.admit("a")
    world.finish_with(TaskFinished(submission_id=world.attempt("a"), outcome=outcome, result=result))
    return world


@pytest.mark.parametrize(
    "result", [0, False, "", [], {}, {"rows": 7}, "x" * (MAX_RESULT_BYTES - 2)], ids=lambda value: repr(value)[:9]
)
def test_what_a_task_returns_is_kept(result: Any) -> None:
    world = returned(result)

    assert world.results == {0: result}
    assert world.states() == {"a": TaskState.SUCCESS, "b": TaskState.SCHEDULED}


def test_nothing_is_kept_of_a_task_that_returns_nothing() -> None:
    assert returned(None).results == {}


@pytest.mark.parametrize("outcome", ["failed", "skipped", "killed", "lost"])
def test_nothing_is_kept_of_a_task_that_did_not_succeed(outcome: str) -> None:
    assert returned(7, outcome).results == {}


@pytest.mark.parametrize(
    ("result", "said"),
    [
        pytest.param("x" * (MAX_RESULT_BYTES - 1), "the task returned more than 65536 bytes", id="too much"),
        pytest.param({"a\0": 1}, "the task returned a NUL character", id="a character that cannot be stored"),
    ],
)
def test_a_task_that_returns_what_cannot_be_kept_has_failed_and_says_so(result: Any, said: str) -> None:
    world = returned(result)

    assert world.results == {}
    assert world.states() == {"a": TaskState.FAILED, "b": TaskState.UPSTREAM_FAILED}
    (reason,) = (event.reason for event in world.published if event.state == "failed")
    assert said in reason
