"""The versions of DAGs, as graphs and as specs."""

from collections.abc import Collection, Mapping

import msgspec

from tidegate.schemas.dag import DagSpec
from tidegate.schemas.error import DagFaultError, described
from tidegate.schemas.graph import Graph, graph_of
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("versions")


async def graphs(db: Db, version_ids: Collection[int]) -> Mapping[int, Graph]:
    """The graphs of these versions; read once per process. Raises DagFaultError for versions that cannot be read."""
    found = {id_: db.memory.graphs[id_] for id_ in version_ids if id_ in db.memory.graphs}
    if unknown := [id_ for id_ in version_ids if id_ not in found]:
        found |= await _read(db, unknown)
    return found


async def _read(db: Db, version_ids: Collection[int]) -> Mapping[int, Graph]:
    found: dict[int, Graph] = {}
    faults: dict[str, str] = {}
    rows = await db.fetch(_SQL["graphs"], list(version_ids))
    for id_, dag_id, number, spec, size in rows:
        try:
            found[id_] = graph_of(id_, msgspec.convert(spec, DagSpec))
        except Exception as error:  # noqa: BLE001 - any error in a stored spec concerns the DAG alone
            faults[dag_id] = f"its version {number} cannot be read: {described(error)}"
        else:
            db.memory.graphs.remember(id_, found[id_], size)
    if missing := set(version_ids) - {row[0] for row in rows}:
        faults |= await _missing(db, missing)
    if faults:
        raise DagFaultError(faults)
    return found


async def _missing(db: Db, version_ids: Collection[int]) -> Mapping[str, str]:
    rows = await db.fetch(_SQL["users"], list(version_ids))
    return {dag_id: f"the row of its version is missing (id {version_id})" for dag_id, version_id in rows}


async def current_spec(db: Db, dag_id: str) -> DagSpec:
    """The spec of an existing DAG at its current version. Raises DagFaultError if it cannot be read."""
    rows = await db.fetch(_SQL["current_version"], dag_id)
    try:
        return msgspec.convert(rows[0]["spec"], DagSpec)
    except (IndexError, msgspec.ValidationError) as error:
        raise DagFaultError({dag_id: f"its current version cannot be read: {described(error)}"}) from error
