"""The graph of datasets and DAGs around its start."""

from tidegate.daemon.read_model.dataset_graph import DataNode, Neighbourhood
from tidegate.schemas.queries.dataset_pages import EdgeRow


def dag(name: str) -> DataNode:
    return DataNode("dag", name)


def dataset(uri: str) -> DataNode:
    return DataNode("dataset", uri)


MADE, STARTS = EdgeRow("a", "s", is_outlet=True), EdgeRow("b", "s", is_outlet=False)


def test_a_step_returns_what_is_new_and_edges_have_their_direction() -> None:
    found = Neighbourhood([dataset("s")])

    assert found.step([MADE, STARTS]) == [dag("a"), dag("b")]
    assert found.step([MADE, STARTS]) == []
    graph = found.graph(is_cut=False)
    assert graph.edges == [(dag("a"), dataset("s")), (dataset("s"), dag("b"))]
    assert not graph.is_cut


def test_nodes_beyond_the_most_are_left_out_with_their_edges() -> None:
    found = Neighbourhood([dataset("s")], most=2)

    assert found.step([MADE, STARTS]) == [dag("a")]
    graph = found.graph(is_cut=False)
    assert (graph.nodes, graph.edges, graph.is_cut) == ([dataset("s"), dag("a")], [(dag("a"), dataset("s"))], True)


def test_a_start_of_too_many_nodes_is_cut() -> None:
    graph = Neighbourhood([dataset("s"), dataset("t"), dataset("u")], most=2).graph(is_cut=False)

    assert (len(graph.nodes), graph.is_cut) == (2, True)
