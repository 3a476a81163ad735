"""A DAG version as decisions see it."""

import pytest

from tests.shapes import A, graph, spec
from tidegate.schemas.graph import graph_of


def test_edges_are_counted_upwards_and_listed_downwards() -> None:
    dag = graph("a", "b", "c < a b", "d < a c")

    assert [(node.task.task_id, node.upstream, node.downstream) for node in dag.nodes] == [
        ("a", 0, (2, 3)),
        ("b", 0, (2,)),
        ("c", 2, (3,)),
        ("d", 2, ()),
    ]


def test_a_leaf_has_nothing_after_it() -> None:
    assert [node.leaf for node in graph("a", "b < a", "c").nodes] == [False, True, True]


def test_only_empty_tasks_are_instant() -> None:
    assert [node.instant for node in graph("a", "b!").nodes] == [False, True]


@pytest.mark.parametrize(("lines", "instant"), [((), True), (("a!", "b! < a"), True), (("a!", "b"), False)])
def test_a_dag_is_instant_when_all_its_tasks_are(lines: tuple[str, ...], instant: bool) -> None:
    assert graph(*lines).instant is instant


def test_a_graph_has_what_its_version_says() -> None:
    dag = graph_of(7, spec("a", dag_id="x", schedule=A, limit=3))

    assert (dag.dag_id, dag.version_id, dag.schedule, dag.max_active_runs) == ("x", 7, A, 3)


def test_two_readings_of_a_version_are_two_graphs() -> None:
    """What follows from a graph is cached by its identity: comparing it by content would cost what the cache saves."""
    assert graph("a") != graph("a")
