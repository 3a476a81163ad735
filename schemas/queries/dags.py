"""DAGs: locked for a decision with all that waits for them; versions as graphs; lists."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tidegate.schemas.dag import DagSpec, holds
from tidegate.schemas.effect import SetPaused
from tidegate.schemas.error import InvariantError
from tidegate.schemas.graph import Graph, graph_of
from tidegate.schemas.queries import datasets
from tidegate.schemas.queries.db import Db, columns
from tidegate.schemas.queries.runs import run_view
from tidegate.schemas.queries.sql import load
from tidegate.schemas.view import DagView, QueuedRun

_SQL = load("dags")
_LOCK = _SQL["lock"]
_ACTIVITY = _SQL["activity"]
_WAITING = _SQL["waiting_runs"]
_GRAPHS = _SQL["graphs"]
_SET_PAUSED = _SQL["set_paused"]
_LIST = _SQL["list_dags"]
_LIST_ERRORS = _SQL["list_import_errors"]
_CURRENT = _SQL["current_version"]


class DagRow(msgspec.Struct, frozen=True):
    """A line of the list of DAGs. `pending` counts events waiting for it; `import_error` is about its file."""

    dag_id: str
    path: str
    is_paused: bool
    is_stale: bool
    version: int
    schedule: Any
    running: int
    queued: int
    pending: int
    import_error: str | None


class ImportErrorRow(msgspec.Struct, frozen=True):
    """A DAG file that cannot be used as it is."""

    path: str
    line: int | None
    reason: str
    at: datetime


class _Locked(msgspec.Struct):
    graph: Graph
    is_paused: bool
    next_run_id: int
    running: int = 0
    queued: int = 0
    has_pending: bool = False

    def slots(self, freeing: int) -> int:
        """How many runs may start, if `freeing` of the running ones end in this transaction."""
        return max(self.graph.max_active_runs - self.running + freeing, 0)


async def lock(
    db: Db, dag_ids: Collection[str], *, freeing: Mapping[str, int] | None = None, whatever_waits: bool = False
) -> tuple[DagView, ...]:
    """Lock these DAGs, in the global order, and read what waits for them. Ids that do not exist are left out.

    `freeing`: by DAG, how many running runs this transaction may end at most; it makes room for what waits.
    `whatever_waits`: read the pending events even where today's condition could not use them, because it may change.
    """
    if not dag_ids:
        return ()
    locked = await _lock(db, sorted(dag_ids))
    may_end = freeing or {}
    slots = {dag_id: dag.slots(may_end.get(dag_id, 0)) for dag_id, dag in locked.items()}
    waiting = await _waiting(db, {dag_id: slots[dag_id] for dag_id, dag in locked.items() if dag.queued and slots[dag_id]})
    useful = {dag_id: dag for dag_id, dag in locked.items() if dag.has_pending and (slots[dag_id] or whatever_waits)}
    pending = await _pending(db, useful, whatever_waits=whatever_waits)
    return tuple(
        DagView(
            graph=dag.graph,
            is_paused=dag.is_paused,
            running=dag.running,
            queued=dag.queued,
            next_run_id=dag.next_run_id,
            waiting=waiting.get(dag_id, ()),
            pending=pending.get(dag_id, ()),
        )
        for dag_id, dag in locked.items()
    )


async def graphs(db: Db, version_ids: Collection[int]) -> Mapping[int, Graph]:
    """The graphs of these versions; read once per process."""
    memory = db.memory.graphs
    if unknown := [id_ for id_ in version_ids if id_ not in memory]:
        for id_, spec in await db.fetch(_GRAPHS, unknown):
            db.memory.remember_graph(graph_of(id_, msgspec.convert(spec, DagSpec)))
    if missing := [id_ for id_ in version_ids if id_ not in memory]:
        raise InvariantError(f"dag_version {missing[0]} is referenced but does not exist")
    return memory


async def set_paused(db: Db, effects: Sequence[SetPaused]) -> None:
    await db.execute(_SET_PAUSED, *columns(effects))


async def list_dags(db: Db, dag_id: str | None = None) -> list[DagRow]:
    """By id; all of them, or the one named."""
    return [DagRow(*row) for row in await db.fetch(_LIST, dag_id)]


async def list_import_errors(db: Db) -> list[ImportErrorRow]:
    """By path."""
    return [ImportErrorRow(*row) for row in await db.fetch(_LIST_ERRORS)]


async def current_spec(db: Db, dag_id: str) -> DagSpec | None:
    """The serialised DAG at its current version; None for a DAG that does not exist."""
    rows = await db.fetch(_CURRENT, dag_id)
    return msgspec.convert(rows[0]["spec"], DagSpec) if rows else None


async def _lock(db: Db, dag_ids: Sequence[str]) -> dict[str, _Locked]:
    rows = await db.fetch(_LOCK, dag_ids)
    known = await graphs(db, {row["version_id"] for row in rows})
    locked = {dag_id: _Locked(known[version_id], paused, next_id) for dag_id, version_id, paused, next_id in rows}
    for dag_id, running, queued, has_pending in await db.fetch(_ACTIVITY, list(locked)):
        dag = locked[dag_id]
        dag.running, dag.queued, dag.has_pending = running, queued, has_pending
    return locked


async def _waiting(db: Db, slots: Mapping[str, int]) -> Mapping[str, tuple[QueuedRun, ...]]:
    if not slots:
        return {}
    runs = [run_view(row) for row in await db.fetch(_WAITING, list(slots), list(slots.values()))]
    known = await graphs(db, {run.version_id for run in runs})
    found: dict[str, list[QueuedRun]] = defaultdict(list)
    for run in runs:
        found[run.dag_id].append(QueuedRun(run, known[run.version_id]))
    return {dag_id: tuple(queued) for dag_id, queued in found.items()}


async def _pending(db: Db, dags: Mapping[str, _Locked], *, whatever_waits: bool) -> Mapping[str, Any]:
    """Pending events of those DAGs whose condition they meet, or which are not scheduled on datasets any more.

    Which leaves have something waiting is asked first: a condition that waits for one input must not read a growing queue of
    the others at every event.
    """
    if not dags or whatever_waits:
        return await datasets.lock_pending(db, list(dags)) if dags else {}
    waiting = await datasets.satisfied(db, list(dags))
    ready = [
        dag_id
        for dag_id, dag in dags.items()
        if dag.graph.schedule is None or holds(dag.graph.schedule, waiting.get(dag_id, set()))
    ]
    return await datasets.lock_pending(db, ready) if ready else {}
