"""DAG files changed: new versions by an atomic swap, broken files keep their last good ones, absent ones go stale.

Parsing happens before, outside any transaction; the message carries what it gave.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.load_dags import lock_dags
from tidegate.handlers.scheduling.next_runs import settle
from tidegate.handlers.scheduling.read_plan import ReadReason
from tidegate.schemas.dag import DagSpec, FunctionTask, ParsedFile
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import AdoptDag, ClearImportError, MarkStale, RecordFile, RecordImportError, StoreVersion
from tidegate.schemas.graph import Graph, graph_of
from tidegate.schemas.message import Message
from tidegate.schemas.queries import datasets, files, references
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.files import FileView, StoredDag
from tidegate.schemas.receiver import FunctionReceiver
from tidegate.schemas.view import DagView

ABSENT_SCANS = 2
"""How often in a row a file must be missing until its DAGs go stale: editors replace files by rename."""

LOOK_AGAIN = ""
"""The digest of a file with a DAG of another file's: no content has it, so that every scan parses it until the other is gone."""


class State(msgspec.Struct, frozen=True):
    """What the database has of these files and DAGs. `new_version_ids` are reserved, one for each DAG that was parsed."""

    now: datetime
    files: Mapping[str, FileView]
    stored: Mapping[str, StoredDag]
    dags: Mapping[str, DagView]
    new_version_ids: tuple[int, ...]


async def load(db: Db, messages: Sequence[Message[ParsedFile]]) -> State:
    parsed = newest([message.body for message in messages])
    specs = [spec for file in parsed.values() for spec in file.dags]
    dag_ids = [spec.dag_id for spec in specs]
    await files.serialise(db)
    if uris := {uri for spec in specs for uri in files.mentioned(spec)}:
        await datasets.make(db, uris)
    known = await files.files(db, parsed)
    stored = await files.concerned(db, parsed, dag_ids)
    await references.prepare(db, specs, [dag.spec for dag in stored])
    locked = await lock_dags(db, [dag.dag_id for dag in stored], ReadReason(everything=True))
    version_ids = await files.reserve_versions(db, len(dag_ids))
    by_id = {dag.dag_id: dag for dag in stored}
    return State(db.now, known, by_id, {dag.graph.dag_id: dag for dag in locked}, tuple(version_ids))


def newest(parsed: Sequence[ParsedFile]) -> dict[str, ParsedFile]:
    """The last parse of each path."""
    return {file.path: file for file in parsed}


def decide(messages: Sequence[Message[ParsedFile]], state: State) -> Iterator[Effect]:
    version_ids = iter(state.new_version_ids)
    parsed = newest([message.body for message in messages])
    homes = homes_after(parsed, state)
    for path, file in parsed.items():
        if file.problem is not None:
            yield RecordFile(path, file.digest, 0, file.duration_s)
            yield RecordImportError(path, file.problem.line, file.problem.reason)
        elif file.digest is None:
            yield from _absent(path, state)
        else:
            yield from _present(file, state, homes, version_ids)
    yield from (MarkStale(dag_id) for dag_id, dag in state.stored.items() if dag_id not in homes and not dag.is_stale)


def homes_after(parsed: Mapping[str, ParsedFile], state: State) -> Mapping[str, str]:
    """Which file each of these DAGs belongs to from now on: the one that has it already, else the first one that defines it."""
    homes = {dag_id: dag.path for dag_id, dag in state.stored.items() if not dag.is_stale and _stays(dag, parsed, state)}
    for path, file in parsed.items():
        for spec in file.dags:
            homes.setdefault(spec.dag_id, path)
    return homes


def _stays(dag: StoredDag, parsed: Mapping[str, ParsedFile], state: State) -> bool:
    """Whether a DAG's file still has it, or may have it: when it is broken, or was not seen absent often enough."""
    file = parsed.get(dag.path)
    if file is None or file.problem is not None:
        return True
    if file.digest is None:
        return _absent_scans(dag.path, state) < ABSENT_SCANS
    return any(spec.dag_id == dag.dag_id for spec in file.dags)


def _absent(path: str, state: State) -> Iterator[Effect]:
    scans = _absent_scans(path, state)
    yield RecordFile(path, None, scans, 0.0)
    if scans >= ABSENT_SCANS:
        yield ClearImportError(path)


def _absent_scans(path: str, state: State) -> int:
    """How often in a row the file was missing, this time included."""
    return (state.files[path].absent_scans if path in state.files else 0) + 1


def _present(file: ParsedFile, state: State, homes: Mapping[str, str], version_ids: Iterator[int]) -> Iterator[Effect]:
    elsewhere = [spec.dag_id for spec in file.dags if homes[spec.dag_id] != file.path]
    if elsewhere:
        yield RecordFile(file.path, LOOK_AGAIN, 0, file.duration_s)
        yield RecordImportError(file.path, None, _taken(elsewhere[0], homes))
    else:
        yield RecordFile(file.path, file.digest, 0, file.duration_s)
        yield ClearImportError(file.path)
    for spec in file.dags:
        if spec.dag_id not in elsewhere:
            yield from _keep(file, spec, state, next(version_ids))


def _taken(dag_id: str, homes: Mapping[str, str]) -> str:
    return f"DAG {dag_id!r} is already defined in {homes[dag_id]}; rename one of them"


def _keep(file: ParsedFile, spec: DagSpec, state: State, version_id: int) -> Iterator[Effect]:
    stored = state.stored.get(spec.dag_id)
    dag = state.dags.get(spec.dag_id)
    if stored is not None and same(stored, spec, file.digest or ""):
        yield AdoptDag(spec.dag_id, file.path)
    else:
        number = stored.number + 1 if stored else 1
        yield StoreVersion(version_id, number, spec, file.path, file.digest or "", file.source)
        dag = dag and _changed(dag, graph_of(version_id, spec))
    if dag is not None:
        yield from settle(msgspec.structs.replace(dag, is_stale=False), state.now)


def _changed(dag: DagView, graph: Graph) -> DagView:
    """The DAG at its new version. New deadlines at a time of day count from now on."""
    is_new = graph.timing.deadline != dag.graph.timing.deadline
    daily = graph.timing.deadline is not None and graph.timing.deadline.at is not None
    return msgspec.structs.replace(dag, graph=graph, deadline_at=None if is_new and daily else dag.deadline_at)


def same(stored: StoredDag, spec: DagSpec, digest: str) -> bool:
    """Whether a parse gave what is stored already.

    Tasks and callbacks that are functions may change with any line of their file; everything else is in the serialised DAG.
    """
    if stored.spec != spec:
        return False
    return stored.digest == digest or not (any(isinstance(task, FunctionTask) for task in spec.tasks) or _calls_back(spec))


def _calls_back(spec: DagSpec) -> bool:
    """Whether some function of the file is told what happens."""
    told = (callback.receiver for part in (spec, *spec.tasks) for callback in part.callbacks)
    return any(isinstance(receiver, FunctionReceiver) for receiver in told)
