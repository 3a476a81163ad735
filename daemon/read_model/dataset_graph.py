"""Datasets and DAGs as one graph: what updates which dataset, and what it starts."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tidegate.daemon.read_model.lookup import find_dag
from tidegate.schemas.error import NotFoundError
from tidegate.schemas.queries import dataset_pages, datasets
from tidegate.schemas.queries.dataset_pages import EdgeRow
from tidegate.schemas.queries.db import Db

MOST = 300
"""The most nodes of the graph."""

EDGES = 1_500
"""The most edges that one step reads."""

STEPS = 6
"""How far the graph goes from its start, in both directions."""


class DataNode(NamedTuple):
    """A DAG, or a dataset by its URI."""

    kind: str
    name: str


class DatasetGraph(msgspec.Struct, frozen=True):
    """Edges go from a DAG to a dataset that it updates, and from a dataset to a DAG that it starts.

    `is_cut`: there are further nodes.
    """

    nodes: Sequence[DataNode]
    edges: Sequence[tuple[DataNode, DataNode]]
    is_cut: bool


class Neighbourhood:
    """The nodes that steps from the start have reached, at most `most`, and the edges that were read."""

    def __init__(self, start: Sequence[DataNode], most: int = MOST) -> None:
        self.most = most
        self.nodes = dict.fromkeys(start[:most])
        self.edges: dict[tuple[DataNode, DataNode], None] = {}
        self.is_cut = len(start) > most

    def step(self, rows: Sequence[EdgeRow]) -> list[DataNode]:
        """Take the edges of nodes. Returns the nodes that are new."""
        found = [edge_of(row) for row in rows]
        new = [node for node in dict.fromkeys(node for edge in found for node in edge) if node not in self.nodes]
        room = self.most - len(self.nodes)
        self.nodes |= dict.fromkeys(new[:room])
        self.edges |= dict.fromkeys(found)
        self.is_cut |= len(new) > room
        return new[:room]

    def graph(self, *, is_cut: bool) -> DatasetGraph:
        """Edges of nodes that were left out are left out."""
        edges = [edge for edge in self.edges if self.nodes.keys() >= set(edge)]
        return DatasetGraph(list(self.nodes), edges, self.is_cut or is_cut)


def edge_of(row: EdgeRow) -> tuple[DataNode, DataNode]:
    dag, dataset = DataNode("dag", row.dag_id), DataNode("dataset", row.uri)
    return (dag, dataset) if row.is_outlet else (dataset, dag)


async def read_graph(db: Db, uri: str = "", dag_id: str = "") -> DatasetGraph:
    """The neighbourhood of a dataset or of a DAG; of the first datasets without one. Raises NotFoundError."""
    new = await _start(db, uri, dag_id)
    found, is_cut = Neighbourhood(new), False
    for _ in range(STEPS):
        new = found.step(rows := await _edges(db, new))
        is_cut |= len(rows) == EDGES
        if not new:
            return found.graph(is_cut=is_cut)
    return found.graph(is_cut=True)


async def _start(db: Db, uri: str, dag_id: str) -> list[DataNode]:
    if dag_id:
        return [DataNode("dag", (await find_dag(db, dag_id)).dag_id)]
    if not uri:
        return [DataNode("dataset", found) for found in await dataset_pages.first(db, MOST + 1)]
    if uri not in await datasets.read(db, [uri]):
        raise NotFoundError(f"there is no dataset {uri!r}; `tidegate datasets list` shows all")
    return [DataNode("dataset", uri)]


async def _edges(db: Db, nodes: Sequence[DataNode]) -> list[EdgeRow]:
    dag_ids = [node.name for node in nodes if node.kind == "dag"]
    return await dataset_pages.edges(db, dag_ids, [node.name for node in nodes if node.kind == "dataset"], EDGES)
