"""The versions of DAGs, as graphs and as specs."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from tidegate.schemas.dag import DagSpec, EmptyTask
from tidegate.schemas.error import FATAL, DagFaultError, described
from tidegate.schemas.graph import Graph, graph_of
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import RUN_ENDED
from tidegate.schemas.view import RunView

_SQL = load("versions")


class _Read(NamedTuple):
    """Graphs by version, and why the other versions cannot be read, by DAG."""

    graphs: Mapping[int, Graph]
    faults: Mapping[str, str]


async def graphs(db: Db, version_ids: Collection[int]) -> Mapping[int, Graph]:
    """The graphs of these versions; read once per process. Raises DagFaultError for versions that cannot be read."""
    found, faults = await _known(db, version_ids)
    if faults:
        raise DagFaultError(faults)
    return found


async def readable(db: Db, version_ids: Collection[int]) -> Mapping[int, Graph]:
    """As `graphs`, without the versions that cannot be read."""
    return (await _known(db, version_ids)).graphs


async def of_runs(db: Db, runs: Collection[RunView]) -> Mapping[int, Graph]:
    """The graphs of these runs' versions. An ended run whose version cannot be read gets one of `names_only`.

    Raises DagFaultError for the versions of unfinished runs that cannot be read.
    """
    found, faults = await _known(db, {run.version_id for run in runs})
    unread = [run for run in runs if run.version_id not in found]
    if unfinished := {run.dag_id for run in unread if run.state not in RUN_ENDED}:
        raise DagFaultError({dag_id: faults.get(dag_id, "the row of its version is missing") for dag_id in unfinished})
    return {**found, **await names_only(db, unread)}


async def names_only(db: Db, runs: Collection[RunView]) -> Mapping[int, Graph]:
    """By version, graphs made from the tasks of these runs, without reading a version: names, but neither edges nor callbacks.

    They are enough to end a run, and for what comes after its end.
    """
    names: dict[int, dict[int, str]] = defaultdict(dict)
    for version_id, index, task_id in await db.fetch(_SQL["task_names"], [run.id for run in runs]) if runs else ():
        names[version_id][index] = task_id
    return {run.version_id: _of_names(run, names[run.version_id]) for run in runs}


def _of_names(run: RunView, names: Mapping[int, str]) -> Graph:
    tasks = tuple(EmptyTask(task_id=names.get(index, f"task {index}")) for index in range(max(names, default=-1) + 1))
    graph = graph_of(run.version_id, DagSpec(dag_id=run.dag_id, tasks=tasks))
    return msgspec.structs.replace(graph, sequential=True, has_deadlines=True)


async def _known(db: Db, version_ids: Collection[int]) -> _Read:
    found = {id_: db.memory.graphs[id_] for id_ in version_ids if id_ in db.memory.graphs}
    unknown = [id_ for id_ in version_ids if id_ not in found]
    read = await _read(db, unknown) if unknown else _Read({}, {})
    return _Read({**found, **read.graphs}, read.faults)


async def _read(db: Db, version_ids: Collection[int]) -> _Read:
    found: dict[int, Graph] = {}
    faults: dict[str, str] = {}
    rows = await db.fetch(_SQL["graphs"], list(version_ids))
    for id_, dag_id, number, spec, size in rows:
        try:
            found[id_] = graph_of(id_, msgspec.convert(spec, DagSpec))
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - any error in a stored spec concerns the DAG alone
            faults[dag_id] = f"its version {number} cannot be read: {described(error)}"
        else:
            db.memory.graphs.remember(id_, found[id_], size)
    if missing := set(version_ids) - {row[0] for row in rows}:
        faults |= await _missing(db, missing)
    return _Read(found, faults)


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
