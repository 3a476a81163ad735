"""Notifications of mapped tasks."""

import pytest

from tests.shapes import NOW, graph, run_view, task
from tests.unit.handlers.callbacks import one_callback_per_occasion
from tidegate.handlers.runs.transition import task_events
from tidegate.handlers.tasks.advance import Move
from tidegate.schemas.dag import DeadlineSpec
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.deadline import MeetDeadlines, Notify
from tidegate.schemas.graph import element_index
from tidegate.schemas.state import RunState, TaskState

HOUR = DeadlineSpec(name="hour", after_s=3600.0)


def mapped_moves(*moves: Move) -> list[Effect]:
    dag = graph("a", task("b < a", over="a", callbacks=one_callback_per_occasion(), execution_timeout_s=90.0, deadlines=(HOUR,)))
    return list(task_events(run_view(state=RunState.RUNNING), dag, moves, NOW))


def instance(element: int, state: TaskState, *, timed_out: bool = False) -> Move:
    return Move(element_index(1, element), state, 1, timed_out=timed_out)


@pytest.mark.parametrize(
    ("move", "expected"),
    [
        pytest.param(instance(3, TaskState.SUCCESS), [], id="an instance succeeded"),
        pytest.param(instance(3, TaskState.FAILED), [], id="an instance failed for good"),
        pytest.param(instance(3, TaskState.UP_FOR_RETRY), [("b", 3, "retry")], id="an instance is tried again"),
        pytest.param(instance(3, TaskState.FAILED, timed_out=True), [("b", 3, "timeout")], id="an instance took too long"),
        pytest.param(Move(1, TaskState.FAILED, 0, "1 of 4 instances failed"), [("b", None, "failure")], id="the task failed"),
        pytest.param(Move(1, TaskState.SUCCESS, 0), [("b", None, "success")], id="the task succeeded"),
    ],
)
def test_a_mapped_task_is_notified_once(move: Move, expected: list[tuple[str, int | None, str]]) -> None:
    notices = [effect for effect in mapped_moves(move) if isinstance(effect, Notify)]

    assert [(notice.context.task_id, notice.context.map_index, notice.context.on) for notice in notices] == expected


def test_a_mapped_task_meets_its_deadlines_when_all_its_instances_have_ended() -> None:
    effects = mapped_moves(instance(0, TaskState.SUCCESS), instance(1, TaskState.FAILED), Move(1, TaskState.FAILED, 0))

    assert [effect for effect in effects if isinstance(effect, MeetDeadlines)] == [MeetDeadlines(1, "b", NOW)]
    assert isinstance(effects[-1], Notify)
