"""What the end of an attempt does to the tasks after it."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from tests.shapes import NOW, graph, task
from tidegate.handlers.advance import Finish, Instance, advance, begin, reach, run_state
from tidegate.schemas.state import RunState, TaskState

NONE, SCHEDULED, RUNNING, SUCCESS = TaskState.NONE, TaskState.SCHEDULED, TaskState.RUNNING, TaskState.SUCCESS
FAILED, UPSTREAM_FAILED, UP_FOR_RETRY = TaskState.FAILED, TaskState.UPSTREAM_FAILED, TaskState.UP_FOR_RETRY


@pytest.mark.parametrize(
    ("lines", "states", "ended", "failed_leaves"),
    [
        pytest.param((), {}, 0, 0, id="no tasks"),
        pytest.param(("a",), {"a": SCHEDULED}, 0, 0, id="one task"),
        pytest.param(("a", "b < a"), {"a": SCHEDULED, "b": NONE}, 0, 0, id="only roots get their turn"),
        pytest.param(("a!", "b < a"), {"a": SUCCESS, "b": SCHEDULED}, 1, 0, id="an empty root is over at once"),
        pytest.param(("a!", "b! < a", "c! < a b"), dict.fromkeys("abc", SUCCESS), 3, 0, id="nothing but empty tasks"),
        pytest.param(("a!", "b", "c! < a b"), {"a": SUCCESS, "b": SCHEDULED, "c": NONE}, 1, 0, id="an empty task waits for all"),
    ],
)
def test_a_run_begins_with_its_roots(
    lines: Sequence[str], states: Mapping[str, TaskState], ended: int, failed_leaves: int
) -> None:
    dag = graph(*lines)

    step = begin(dag)

    assert {dag.nodes[instance.index].task.task_id: instance.state for instance in step.touched} == states
    assert (step.ended, step.failed_leaves) == (ended, failed_leaves)


@pytest.mark.parametrize(
    ("lines", "before", "succeeded", "moves", "ended", "failed_leaves"),
    [
        pytest.param(("a",), {"a": RUNNING}, {"a": True}, [("a", SUCCESS)], 1, 0, id="a leaf succeeds"),
        pytest.param(("a",), {"a": RUNNING}, {"a": False}, [("a", FAILED)], 1, 1, id="a leaf fails"),
        pytest.param(("a*1",), {"a": RUNNING}, {"a": False}, [("a", UP_FOR_RETRY)], 0, 0, id="a try is left"),
        pytest.param(("a*1", "b < a"), {"a": RUNNING}, {"a": False}, [("a", UP_FOR_RETRY)], 0, 0, id="a retry tells nobody"),
        pytest.param(
            ("a", "b < a"), {"a": RUNNING}, {"a": True}, [("a", SUCCESS), ("b", SCHEDULED)], 1, 0, id="the next one gets its turn"
        ),
        pytest.param(
            ("a", "b", "c < a b"), {"a": RUNNING, "b": RUNNING}, {"a": True}, [("a", SUCCESS)], 1, 0, id="all upstream is needed"
        ),
        pytest.param(
            ("a", "b", "c < a b"),
            {"a": RUNNING, "b": RUNNING},
            {"a": True, "b": True},
            [("a", SUCCESS), ("b", SUCCESS), ("c", SCHEDULED)],
            2,
            0,
            id="both ends come in one batch",
        ),
        pytest.param(
            ("a", "b", "c < a b", "d < c"),
            {"a": RUNNING, "b": RUNNING},
            {"a": False},
            [("a", FAILED), ("c", UPSTREAM_FAILED), ("d", UPSTREAM_FAILED)],
            3,
            1,
            id="one failure is enough, at once and all the way down",
        ),
        pytest.param(
            ("a", "b", "c < a b"),
            {"a": RUNNING, "b": RUNNING},
            {"a": False, "b": False},
            [("a", FAILED), ("b", FAILED), ("c", UPSTREAM_FAILED)],
            3,
            1,
            id="a second failure does not end a task again",
        ),
        pytest.param(
            ("a", "b! < a", "c! < b", "d < c"),
            {"a": RUNNING},
            {"a": True},
            [("a", SUCCESS), ("b", SUCCESS), ("c", SUCCESS), ("d", SCHEDULED)],
            3,
            0,
            id="empty tasks are passed through",
        ),
        pytest.param(
            ("a", "b! < a"), {"a": RUNNING}, {"a": False}, [("a", FAILED), ("b", UPSTREAM_FAILED)], 2, 1, id="empty ones fail too"
        ),
    ],
)
def test_an_end_is_followed_as_far_as_it_reaches(
    lines: Sequence[str],
    before: Mapping[str, TaskState],
    succeeded: Mapping[str, bool],
    moves: Sequence[tuple[str, TaskState]],
    ended: int,
    failed_leaves: int,
) -> None:
    dag = graph(*lines)
    ids = [node.task.task_id for node in dag.nodes]
    ends = [Finish(ids.index(task_id), 1, ok) for task_id, ok in succeeded.items()]
    found = {i: Instance(i, before.get(ids[i], NONE), int(ids[i] in before)) for i in reach(dag, ends)}

    step = advance(dag, found, ends, NOW)

    assert [(ids[move.index], move.state) for move in step.moves] == moves
    assert (step.ended, step.failed_leaves) == (ended, failed_leaves)


def test_an_advance_leaves_what_it_was_given_as_it_is() -> None:
    found = {0: Instance(0, RUNNING, 1), 1: Instance(1)}

    advance(graph("a", "b < a"), found, [Finish(0, 1, succeeded=True)], NOW)

    assert found == {0: Instance(0, RUNNING, 1), 1: Instance(1)}


def test_the_next_try_is_after_the_delay() -> None:
    dag = graph(task("a*3", retry_delay_s=90))

    step = advance(dag, {0: Instance(0, RUNNING, 2)}, [Finish(0, 2, succeeded=False)], NOW)

    assert step.touched[0].next_try_at == NOW + timedelta(seconds=90)


def test_a_move_tells_why_the_attempt_ended() -> None:
    step = advance(graph("a"), {0: Instance(0, RUNNING, 1)}, [Finish(0, 1, succeeded=False, reason="killed")], NOW)

    assert [(move.try_number, move.reason) for move in step.moves] == [(1, "killed")]


@pytest.mark.parametrize(
    ("lines", "succeeded", "reached"),
    [
        pytest.param(("a", "b < a", "c < b"), {"a": True}, "ab", id="a success reaches what is next"),
        pytest.param(("a", "b < a", "c < b"), {"a": False}, "abc", id="a failure reaches everything after it"),
        pytest.param(("a*1", "b < a", "c < b"), {"a": False}, "a", id="a retry reaches nothing"),
        pytest.param(("a", "b! < a", "c < b", "d < c"), {"a": True}, "abc", id="an empty task passes a success on"),
        pytest.param(("a", "b < a", "c < b"), {"a": True, "b": True}, "abc", id="an end after another one's is followed too"),
        pytest.param(("a", "b", "c! < a b", "d < c"), {"a": True, "b": False}, "abcd", id="success and failure meet"),
    ],
)
def test_an_end_reaches_no_more_than_it_may_touch(lines: Sequence[str], succeeded: Mapping[str, bool], reached: str) -> None:
    dag = graph(*lines)
    ids = [node.task.task_id for node in dag.nodes]

    found = reach(dag, [Finish(ids.index(task_id), 1, ok) for task_id, ok in succeeded.items()])

    assert {ids[index] for index in found} == set(reached)


@pytest.mark.parametrize(
    ("unfinished", "failed_leaves", "state"),
    [
        (1, 0, RunState.RUNNING),
        (1, 1, RunState.RUNNING),
        (0, 0, RunState.SUCCESS),
        (0, 1, RunState.FAILED),
    ],
)
def test_the_leaves_decide_the_run_once_nothing_is_unfinished(unfinished: int, failed_leaves: int, state: RunState) -> None:
    assert run_state(unfinished, failed_leaves) is state
