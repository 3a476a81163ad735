"""The graph of datasets and DAGs: around one of them, or the first ones."""

from msgspec import Struct

from tidegate.daemon.api.datasets import DataGraphOf, show_dataset_graph
from tidegate.daemon.gateway.endpoint import Call, Read
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.dataset_graph import DataNode, DatasetGraph
from tidegate.daemon.web.layered_graph import Box, Drawing, drawing
from tidegate.daemon.web.rendering import dag_url, url
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.queries.db import Db


class DatasetGraphScreen(Struct, frozen=True):
    """A graph and how it is drawn."""

    graph: DatasetGraph
    drawing: Drawing


async def read(db: Db, call: Call[DataGraphOf]) -> DatasetGraphScreen:
    graph = await show_dataset_graph(db, call)
    boxes = {key(node): box(node) for node in graph.nodes}
    edges = [(key(before), key(after)) for before, after in graph.edges]
    return DatasetGraphScreen(graph, drawing(boxes, edges))


def key(node: DataNode) -> str:
    """A DAG and a dataset may have the same name."""
    return f"{node.kind} {node.name}"


def box(node: DataNode) -> Box:
    """DAGs have another colour than datasets."""
    if node.kind == "dag":
        return Box(node.name, dag_url(node.name), kind="dag")
    return Box(node.name, url("dataset", uri=node.name))


SCREEN = Screen(Read("/datasets/graph", Right.VIEW, read, DataGraphOf, DatasetGraphScreen), "dataset_graph.html")
