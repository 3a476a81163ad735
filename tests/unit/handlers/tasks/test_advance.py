"""The consequences of an attempt's end for the tasks downstream."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import permutations

import msgspec
import pytest

from tests.shapes import NOW, graph, task
from tidegate.handlers.tasks.advance import advance, begin
from tidegate.handlers.tasks.affected import affected_tasks
from tidegate.handlers.tasks.attempt_end import AttemptEnd
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import TaskState
from tidegate.schemas.view import Instance

NONE, SCHEDULED, RUNNING, SUCCESS = TaskState.NONE, TaskState.SCHEDULED, TaskState.RUNNING, TaskState.SUCCESS
FAILED, UPSTREAM_FAILED, UP_FOR_RETRY = TaskState.FAILED, TaskState.UPSTREAM_FAILED, TaskState.UP_FOR_RETRY
SKIPPED, REMOVED = TaskState.SKIPPED, TaskState.REMOVED


def ids_of(dag: Graph) -> list[str]:
    return [node.task.task_id for node in dag.nodes]


def finish(dag: Graph, task_id: str, *, succeeded: bool) -> AttemptEnd:
    return AttemptEnd(ids_of(dag).index(task_id), 1, SUCCESS if succeeded else FAILED)


def begun(dag: Graph, before: Mapping[str, TaskState], only: Iterable[int] | None = None) -> dict[int, Instance]:
    """The instances of a run that has begun, some in these states at their first try."""
    instances = {instance.index: msgspec.structs.replace(instance) for instance in begin(dag).changed}
    for task_id, state in before.items():
        index = ids_of(dag).index(task_id)
        instances[index] = msgspec.structs.replace(instances[index], state=state, try_number=1)
    return {index: instances[index] for index in (instances if only is None else only)}


@pytest.mark.parametrize(
    ("lines", "states", "ended", "failed_leaves"),
    [
        pytest.param((), {}, 0, 0, id="no tasks"),
        pytest.param(("a",), {"a": SCHEDULED}, 0, 0, id="one task"),
        pytest.param(("a", "b < a"), {"a": SCHEDULED, "b": NONE}, 0, 0, id="only roots get their turn"),
        pytest.param(("a!", "b < a"), {"a": SUCCESS, "b": SCHEDULED}, 1, 0, id="an empty root is over at once"),
        pytest.param(("a!", "b! < a", "c! < a b"), dict.fromkeys("abc", SUCCESS), 3, 0, id="nothing but empty tasks"),
        pytest.param(("a!", "b", "c! < a b"), {"a": SUCCESS, "b": SCHEDULED, "c": NONE}, 1, 0, id="an empty task waits for all"),
        pytest.param(("a", "b:always < a"), {"a": SCHEDULED, "b": SCHEDULED}, 0, 0, id="always means at once"),
        pytest.param(
            ("a!", "b!:all_failed < a", "c < b"), {"a": SUCCESS, "b": SKIPPED, "c": SKIPPED}, 3, 0, id="a rule may skip at once"
        ),
    ],
)
def test_a_run_begins_with_tasks_without_upstream(
    lines: Sequence[str], states: Mapping[str, TaskState], ended: int, failed_leaves: int
) -> None:
    dag = graph(*lines)

    step = begin(dag)

    assert {dag.nodes[instance.index].task.task_id: instance.state for instance in step.changed} == states
    assert (step.ended, step.failed_leaves) == (ended, failed_leaves)


@pytest.mark.parametrize(
    ("lines", "before", "succeeded", "moves", "ended", "failed_leaves"),
    [
        pytest.param(("a",), {"a": RUNNING}, {"a": True}, [("a", SUCCESS)], 1, 0, id="a leaf succeeds"),
        pytest.param(("a",), {"a": RUNNING}, {"a": False}, [("a", FAILED)], 1, 1, id="a leaf fails"),
        pytest.param(("a*1",), {"a": RUNNING}, {"a": False}, [("a", UP_FOR_RETRY)], 0, 0, id="a try is left"),
        pytest.param(("a*1", "b < a"), {"a": RUNNING}, {"a": False}, [("a", UP_FOR_RETRY)], 0, 0, id="a retry sends nothing"),
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
def test_the_consequences_of_an_end_are_followed_to_a_fixpoint(
    lines: Sequence[str],
    before: Mapping[str, TaskState],
    succeeded: Mapping[str, bool],
    moves: Sequence[tuple[str, TaskState]],
    ended: int,
    failed_leaves: int,
) -> None:
    dag = graph(*lines)
    ends = [finish(dag, task_id, succeeded=ok) for task_id, ok in succeeded.items()]

    step = advance(dag, begun(dag, before, affected_tasks(dag, ends)), ends, NOW)

    assert [(ids_of(dag)[move.index], move.state) for move in step.moves] == moves
    assert (step.ended, step.failed_leaves) == (ended, failed_leaves)


def test_an_advance_does_not_change_its_arguments() -> None:
    dag = graph("a", "b < a")
    found = begun(dag, {"a": RUNNING})

    advance(dag, found, [finish(dag, "a", succeeded=True)], NOW)

    assert found == begun(dag, {"a": RUNNING})


def test_the_next_try_is_after_the_delay() -> None:
    dag = graph(task("a*3", retry_delay_s=90))

    step = advance(dag, {0: Instance(0, RUNNING, 2, max_tries=4)}, [AttemptEnd(0, 2, FAILED)], NOW)

    assert step.changed[0].next_try_at == NOW + timedelta(seconds=90)


def test_a_move_has_the_reason_of_the_end() -> None:
    step = advance(graph("a"), {0: Instance(0, RUNNING, 1)}, [AttemptEnd(0, 1, FAILED, "killed")], NOW)

    assert [(move.try_number, move.reason) for move in step.moves] == [(1, "killed")]


@pytest.mark.parametrize(
    ("max_tries", "state"),
    [
        pytest.param(2, FAILED, id="no try is left"),
        pytest.param(3, UP_FOR_RETRY, id="it was cleared, and given more tries than its task has"),
    ],
)
def test_an_instance_has_its_own_max_tries(max_tries: int, state: TaskState) -> None:
    dag = graph("a*1")

    step = advance(dag, {0: Instance(0, RUNNING, 2, max_tries=max_tries)}, [AttemptEnd(0, 2, FAILED)], NOW)

    assert [move.state for move in step.moves] == [state]


def test_the_order_of_ends_in_a_batch_does_not_matter() -> None:
    dag = graph("a", "b", "x!:all_skipped < a", "c:all_success < x b", "d:none_skipped < a c", "e < d")
    ends = [AttemptEnd(0, 1, SKIPPED), AttemptEnd(1, 1, FAILED)]

    steps = [advance(dag, begun(dag, {"a": RUNNING, "b": RUNNING}), order, NOW) for order in permutations(ends)]

    assert {tuple(sorted((i.index, i.state) for i in step.changed)) for step in steps} == {
        ((0, SKIPPED), (1, FAILED), (2, SUCCESS), (3, UPSTREAM_FAILED), (4, SKIPPED), (5, SKIPPED))
    }


def test_a_task_is_decided_about_after_everything_upstream_in_the_step() -> None:
    """A failure outweighs a skip, also where its path is longer."""
    dag = graph("a", "short:all_skipped < a", "long < a", "longer < long", "join < short longer")

    step = advance(dag, begun(dag, {"a": RUNNING}), [finish(dag, "a", succeeded=False)], NOW)

    assert {ids_of(dag)[instance.index]: instance.state for instance in step.changed} == {
        "a": FAILED,
        "short": SKIPPED,
        "long": UPSTREAM_FAILED,
        "longer": UPSTREAM_FAILED,
        "join": UPSTREAM_FAILED,
    }


@pytest.mark.parametrize(
    ("absent", "states"),
    [
        pytest.param("a", {"a": REMOVED, "b": SCHEDULED, "c": NONE}, id="no task waits for it"),
        pytest.param("b", {"a": SCHEDULED, "b": REMOVED, "c": SCHEDULED}, id="nor does what comes after it"),
        pytest.param("ab", {"a": REMOVED, "b": REMOVED, "c": SCHEDULED}, id="several"),
        pytest.param("abc", {"a": REMOVED, "b": REMOVED, "c": REMOVED}, id="all"),
    ],
)
def test_an_absent_task_is_removed(absent: str, states: Mapping[str, TaskState]) -> None:
    dag = graph("a", "b < a", "c < b")

    step = begin(dag, frozenset("abc".index(task_id) for task_id in absent))

    assert {ids_of(dag)[instance.index]: instance.state for instance in step.changed} == states
    assert step.ended == len(absent)


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
def test_only_tasks_that_may_change_are_affected(lines: Sequence[str], succeeded: Mapping[str, bool], reached: str) -> None:
    dag = graph(*lines)

    found = affected_tasks(dag, [finish(dag, task_id, succeeded=ok) for task_id, ok in succeeded.items()])

    assert {ids_of(dag)[index] for index in found} == set(reached)


@pytest.mark.parametrize(
    ("options", "state", "waits_for_past"),
    [
        pytest.param({}, SCHEDULED, False, id="it is submitted again"),
        pytest.param({}, NONE, False, id="it is decided again"),
        pytest.param({"depends_on_past": True}, NONE, True, id="it waits for the run before"),
        pytest.param({"wait_for_downstream": True}, NONE, True, id="it waits for the tasks downstream in the run before"),
    ],
)
def test_an_attempt_that_counts_for_nothing_gives_its_reason(
    options: dict[str, bool], state: TaskState, waits_for_past: bool
) -> None:
    dag = graph(task("a", **options))

    done = advance(dag, begun(dag, {"a": RUNNING}), [AttemptEnd(0, 1, state, "cleared")], NOW)

    assert [(move.state, move.reason) for move in done.moves[:1]] == [(state, "cleared")]
    if state is NONE:
        assert done.changed[0].waits_for_past is waits_for_past


def test_a_task_that_is_no_part_of_the_run_says_why() -> None:
    done = begin(graph("a", "b"), absent=frozenset({1}))

    assert [(move.state, move.reason) for move in done.moves if move.index == 1] == [
        (REMOVED, "the logical date of the run is outside the dates of the task")
    ]
