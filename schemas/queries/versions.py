"""The versions of DAGs, as graphs and as specs."""

from collections.abc import Collection, Mapping

import msgspec

from tidegate.schemas.dag import DagSpec
from tidegate.schemas.error import InvariantError
from tidegate.schemas.graph import Graph, graph_of
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("versions")


async def graphs(db: Db, version_ids: Collection[int]) -> Mapping[int, Graph]:
    """The graphs of these versions; read once per process."""
    found = {id_: db.memory.graphs[id_] for id_ in version_ids if id_ in db.memory.graphs}
    if unknown := [id_ for id_ in version_ids if id_ not in found]:
        for id_, spec in await db.fetch(_SQL["graphs"], unknown):
            found[id_] = graph_of(id_, msgspec.convert(spec, DagSpec))
            db.memory.remember_graph(found[id_])
    if missing := [id_ for id_ in version_ids if id_ not in found]:
        raise InvariantError(f"dag_version {missing[0]} is referenced but does not exist")
    return found


async def current_spec(db: Db, dag_id: str) -> DagSpec:
    """The spec of an existing DAG at its current version."""
    (row,) = await db.fetch(_SQL["current_version"], dag_id)
    return msgspec.convert(row["spec"], DagSpec)
