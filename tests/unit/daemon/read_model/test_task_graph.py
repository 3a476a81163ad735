"""The graph of the tasks of a DAG."""

import pytest

from tidegate.daemon.read_model.task_graph import BY_WEIGHT, GraphNode, graph_of, group_state
from tidegate.schemas.dag import BaseTask, EmptyTask
from tidegate.schemas.state import TaskState


def task(name: str, *upstream: str) -> BaseTask:
    """A task whose group is the part of its name before the last dot."""
    return EmptyTask(task_id=name, upstream=upstream, group=name.rpartition(".")[0])


TASKS = [task("a"), task("g.b", "a"), task("g.c", "a"), task("g.h.d", "g.b", "g.c"), task("e", "g.h.d", "a")]


def test_few_tasks_are_shown_with_their_edges() -> None:
    graph = graph_of(TASKS)

    assert [node.name for node in graph.nodes] == ["a", "g.b", "g.c", "g.h.d", "e"]
    assert set(graph.edges) == {
        *(("a", "g.b"), ("a", "g.c"), ("g.b", "g.h.d"), ("g.c", "g.h.d")),
        *(("g.h.d", "e"), ("a", "e")),
    }


def test_many_tasks_are_collapsed_to_their_outermost_groups() -> None:
    graph = graph_of(TASKS, most=3)

    assert graph.nodes == [
        GraphNode("a", is_group=False, tasks=1),
        GraphNode("g", is_group=True, tasks=3),
        GraphNode("e", is_group=False, tasks=1),
    ]
    assert set(graph.edges) == {("a", "g"), ("g", "e"), ("a", "e")}


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param([], None, id="no run"),
        pytest.param(["success", "failed", "running"], "failed", id="a failure is seen first"),
        pytest.param(["success", "upstream_failed"], "upstream_failed", id="what a failure held up"),
        pytest.param(["success", "up_for_retry", "running"], "up_for_retry", id="a try that failed"),
        pytest.param(["queued", "running", "success"], "running", id="what runs"),
        pytest.param(["scheduled", "queued", "none"], "queued", id="what is about to run"),
        pytest.param(["scheduled", "none", "success"], "scheduled", id="what waits for slots"),
        pytest.param(["success", "none"], "none", id="no success before all have ended"),
        pytest.param(["success", "skipped", "removed"], "success", id="a success"),
        pytest.param(["skipped", "removed"], "skipped", id="all skipped"),
        pytest.param(["removed"], "removed", id="all removed"),
    ],
)
def test_a_group_has_the_worst_or_most_active_state_of_its_tasks(states: list[str], expected: str | None) -> None:
    assert group_state(states) == expected
    assert group_state(states[::-1]) == expected


def test_each_state_has_its_weight() -> None:
    assert sorted(BY_WEIGHT) == sorted(TaskState)


def test_a_collapsed_group_has_the_state_of_all_below_it() -> None:
    states = {"a": "success", "g.b": "success", "g.h.d": "running"}

    graph = graph_of(TASKS, most=3, states=states)

    assert [(node.name, node.state) for node in graph.nodes] == [("a", "success"), ("g", "running"), ("e", None)]


def test_within_a_group_only_its_tasks_are_shown() -> None:
    assert [node.name for node in graph_of(TASKS, "g").nodes] == ["g.b", "g.c", "g.h.d"]
    assert [node.name for node in graph_of(TASKS, "g", most=2).nodes] == ["g.b", "g.c"]
    assert graph_of(TASKS, "g", most=2).left_out == 1
    assert [(node.name, node.is_group) for node in graph_of([*TASKS, task("g.h.x")], "g", most=3).nodes][2] == ("g.h", True)


def test_nodes_beyond_the_most_are_left_out_with_their_edges() -> None:
    graph = graph_of([task(str(number), str(number - 1)) for number in range(10)], most=4)

    assert (len(graph.nodes), graph.left_out) == (4, 6)
    assert graph.edges == [("0", "1"), ("1", "2"), ("2", "3")]
