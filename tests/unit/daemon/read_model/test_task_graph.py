"""The graph of the tasks of a DAG."""

from tidegate.daemon.read_model.task_graph import GraphNode, graph_of
from tidegate.schemas.dag import BaseTask, EmptyTask


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


def test_within_a_group_only_its_tasks_are_shown() -> None:
    assert [node.name for node in graph_of(TASKS, "g").nodes] == ["g.b", "g.c", "g.h.d"]
    assert [node.name for node in graph_of(TASKS, "g", most=2).nodes] == ["g.b", "g.c"]
    assert graph_of(TASKS, "g", most=2).left_out == 1
    assert [(node.name, node.is_group) for node in graph_of([*TASKS, task("g.h.x")], "g", most=3).nodes][2] == ("g.h", True)


def test_nodes_beyond_the_most_are_left_out_with_their_edges() -> None:
    graph = graph_of([task(str(number), str(number - 1)) for number in range(10)], most=4)

    assert (len(graph.nodes), graph.left_out) == (4, 6)
    assert graph.edges == [("0", "1"), ("1", "2"), ("2", "3")]
