"""DAG files changed: store new versions by an atomic swap, keep the last good version of a broken file, mark absent DAGs stale.

The message carries the result of the parse, which runs outside any transaction.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from tidegate.handlers.load import lock_dags
from tidegate.handlers.scheduling.next_runs import schedule_next_runs
from tidegate.handlers.scheduling.read_plan import ReadReason
from tidegate.handlers.scheduling.timetable import tick_before_edit
from tidegate.schemas.conditions.condition import dataset_uris, patterns
from tidegate.schemas.conditions.pattern import literal_prefix, matches
from tidegate.schemas.dag import REPEAT_DIGEST, DagSpec, FunctionTask, ImportProblem, ModuleSource, ParsedFile, SubmitTask
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.backfill import WakeBackfills
from tidegate.schemas.effect.dag import (
    AdoptDag,
    ClearImportError,
    DescribeDataset,
    MarkStale,
    NoteSchedule,
    RecordAwaitedError,
    RecordFile,
    RecordImportError,
    SetReferences,
    StoreVersion,
)
from tidegate.schemas.graph import Graph, graph_of
from tidegate.schemas.message import Message
from tidegate.schemas.queries import datasets, files, references
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.files import FileView, StoredDag
from tidegate.schemas.receiver import FunctionReceiver
from tidegate.schemas.text import utc
from tidegate.schemas.view import DagView

ABSENT_SCANS = 2
"""Consecutive scans without a file until its DAGs go stale: editors replace files by rename."""


MAX_HISTORY = 200_000
"""The most recorded events that become pending for the new consumers of a file: until they are, no other event is recorded."""

MAX_TOLD = 9
"""The most DAGs that a reason names beside the first one."""

_ROUNDED = timedelta(seconds=1)
"""What texts of times lack."""


EDITED = "the timetable was changed after it"


class LongHistory(msgspec.Struct, frozen=True):
    """Too many recorded events would become pending for the new inputs of a DAG. About as many as may occurred after `since`."""

    dag_id: str
    since: datetime


class State(msgspec.Struct, frozen=True):
    """The files and DAGs as stored; `dags` lacks the held ones. `new_version_ids` are reserved, one for each parsed DAG.

    `dataset_ids`: by URI, the datasets that the parsed DAGs name and all that the patterns of changed DAGs match. `too_long`: by
    path, the first DAG with too long a history.
    """

    now: datetime
    files: Mapping[str, FileView]
    stored: Mapping[str, StoredDag]
    dags: Mapping[str, DagView]
    new_version_ids: tuple[int, ...]
    dataset_ids: Mapping[str, int] = {}
    too_long: Mapping[str, LongHistory] = {}


async def load(db: Db, messages: Sequence[Message[ParsedFile]]) -> State:
    parsed = newest([message.body for message in messages])
    specs = [spec for file in parsed.values() for spec in file.dags]
    await files.lock_files(db)
    uris = {uri for spec in specs for uri in named_uris(spec)}
    dataset_ids = dict(await datasets.create(db, uris)) if uris else {}
    known = await files.files(db, parsed)
    stored = {dag.dag_id: dag for dag in await files.stored_dags(db, parsed, [spec.dag_id for spec in specs])}
    if any(spec is None or patterns_of(spec) for spec in (*specs, *(dag.spec for dag in stored.values()))):
        await references.lock_patterns(db)
        dataset_ids |= await references.datasets_matching(db, changed_patterns(parsed.values(), stored))
    backfilled = {path: [spec for spec in file.dags if may_backfill(spec, stored)] for path, file in parsed.items()}
    too_long = await _too_long(db, backfilled, dataset_ids)
    if any(backfilled[path] for path in backfilled.keys() - too_long.keys()):
        await references.lock_ledger(db)
    locked = await lock_dags(db, stored, ReadReason(everything=True))
    version_ids = await files.reserve_versions(db, len(specs))
    views = {dag.graph.dag_id: dag for dag in locked.dags}
    return State(db.now, known, stored, views, tuple(version_ids), dataset_ids, too_long)


async def _too_long(
    db: Db, backfilled: Mapping[str, Sequence[DagSpec]], dataset_ids: Mapping[str, int]
) -> Mapping[str, LongHistory]:
    """By path, the first DAG with which the recorded events of the file are too many. Counted before the ledger is locked."""
    found: dict[str, LongHistory] = {}
    for path, specs in backfilled.items():
        left = MAX_HISTORY
        for spec in specs:
            effect, most = references_of(spec, dataset_ids), left
            left -= await references.count_history(db, effect, most + 1)
            if left < 0:
                found[path] = LongHistory(spec.dag_id, await references.recent_history(db, effect, most))
                break
    return found


def newest(parsed: Sequence[ParsedFile]) -> dict[str, ParsedFile]:
    """The last parse of each path. The files of an archive count one by one."""
    return {file.path: file for each in parsed for file in (each, *each.members)}


def named_uris(spec: DagSpec) -> set[str]:
    """The datasets that a DAG consumes or produces by name."""
    consumed = dataset_uris(spec.schedule) if spec.schedule else frozenset()
    return {*consumed, *(uri for task in spec.tasks for uri in task.outlets)}


def patterns_of(spec: DagSpec) -> frozenset[str]:
    """The patterns that a DAG consumes."""
    return patterns(spec.schedule) if spec.schedule is not None else frozenset()


def changed_patterns(parsed: Iterable[ParsedFile], stored: Mapping[str, StoredDag]) -> set[str]:
    """The patterns of the DAGs that get a new version."""
    specs = (spec for file in parsed for spec in file.dags if not is_unchanged(stored.get(spec.dag_id), spec, file.digest))
    return {pattern for spec in specs for pattern in patterns_of(spec)}


def may_backfill(spec: DagSpec, stored: Mapping[str, StoredDag]) -> bool:
    """Whether recorded events of newly consumed datasets may become pending."""
    known = stored.get(spec.dag_id)
    before = consumed_names(known.spec) if known is not None and known.spec is not None else frozenset()
    return spec.missed == "all" and not consumed_names(spec) <= before


def consumed_names(spec: DagSpec) -> frozenset[str]:
    """The datasets and patterns that a DAG consumes."""
    return dataset_uris(spec.schedule) | patterns_of(spec) if spec.schedule is not None else frozenset()


def decide(messages: Sequence[Message[ParsedFile]], state: State) -> Iterator[Effect]:
    version_ids = iter(state.new_version_ids)
    parsed = {path: _judged(file, state) for path, file in newest([message.body for message in messages]).items()}
    homes = home_files(parsed, state)
    for path, file in parsed.items():
        if file.problem is not None:
            yield RecordFile(path, file.digest, 0, file.duration_s, file.imports)
            record = RecordAwaitedError if file.is_awaited else RecordImportError
            yield record(path, file.problem.line, file.problem.reason)
        elif file.digest is None:
            yield from _absent(path, state)
        else:
            yield from _present(file, state, homes, version_ids)
    yield from (MarkStale(dag_id) for dag_id, dag in state.stored.items() if dag_id not in homes and not dag.is_stale)


def _judged(file: ParsedFile, state: State) -> ParsedFile:
    """The file; with a problem instead of its DAGs if it does not compile and had some, or if they have too long a history."""
    if file.uncompiled is not None and any(dag.path == file.path and not dag.is_stale for dag in state.stored.values()):
        reason = f"{file.uncompiled.reason}; if the file is to have no DAGs any more, delete it or exclude it by .tidegateignore"
        return msgspec.structs.replace(file, problem=msgspec.structs.replace(file.uncompiled, reason=reason))
    return _limited(file, state)


def _limited(file: ParsedFile, state: State) -> ParsedFile:
    """The file; one with too long a history has a problem instead of its DAGs."""
    if file.path not in state.too_long:
        return file
    found = state.too_long[file.path]
    reason = (
        f"DAG {found.dag_id!r} has catchup=True, but more than {MAX_HISTORY:,} recorded events would become pending for the new "
        f"inputs of this file; set a start_date of {utc(found.since + _ROUNDED)} or later, or catchup=False"
    )
    return msgspec.structs.replace(file, dags=(), problem=ImportProblem(reason=reason))


def home_files(parsed: Mapping[str, ParsedFile], state: State) -> Mapping[str, str]:
    """The file that each DAG belongs to from now on: the one that has it already, else the first one that defines it."""
    homes = {dag_id: dag.path for dag_id, dag in state.stored.items() if not dag.is_stale and _keeps(dag, parsed, state)}
    for path, file in parsed.items():
        for spec in file.dags:
            homes.setdefault(spec.dag_id, path)
    return homes


def _keeps(dag: StoredDag, parsed: Mapping[str, ParsedFile], state: State) -> bool:
    """Whether a DAG's file still defines it. A broken file does, and one that was not absent for long enough."""
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
    """Consecutive scans without the file, this one included."""
    return (state.files[path].absent_scans if path in state.files else 0) + 1


def _present(file: ParsedFile, state: State, homes: Mapping[str, str], version_ids: Iterator[int]) -> Iterator[Effect]:
    elsewhere = [spec.dag_id for spec in file.dags if homes[spec.dag_id] != file.path]
    if elsewhere:
        yield RecordFile(file.path, REPEAT_DIGEST, 0, file.duration_s, file.imports)
        yield RecordImportError(file.path, None, _duplicates(elsewhere, homes))
    else:
        yield RecordFile(file.path, file.digest, 0, file.duration_s, file.imports)
        yield ClearImportError(file.path)
    for spec in file.dags:
        if spec.dag_id not in elsewhere:
            yield from _store(file, spec, state, next(version_ids))


def _duplicates(dag_ids: Sequence[str], homes: Mapping[str, str]) -> str:
    first, *others = dag_ids
    further = "".join(f", DAG {dag_id!r} in {homes[dag_id]}" for dag_id in others[:MAX_TOLD])
    more = f", and {len(others) - MAX_TOLD} more" if len(others) > MAX_TOLD else ""
    return f"DAG {first!r} is already defined in {homes[first]}{further}{more}; rename one of them, or delete that file"


def _store(file: ParsedFile, spec: DagSpec, state: State, version_id: int) -> Iterator[Effect]:
    stored, dag = state.stored.get(spec.dag_id), state.dags.get(spec.dag_id)
    if is_unchanged(stored, spec, file.digest):
        yield AdoptDag(spec.dag_id, file.path)
    else:
        number = stored.number + 1 if stored else 1
        modules, paused = modules_of(spec, file), spec.paused or file.pauses_new
        yield StoreVersion(version_id, number, spec, file.path, file.digest or "", file.source, modules, paused)
        yield references_of(spec, state.dataset_ids)
        yield from (DescribeDataset(dataset.uri, dataset.name, dataset.extra) for dataset in spec.datasets)
        dag = dag and (yield from _at_version(dag, graph_of(version_id, spec), state.now))
        if stored and not dag:  # The DAG was held, and the version releases it.
            yield WakeBackfills(spec.dag_id, state.now)
    if dag is not None:
        if dag.is_stale:
            yield WakeBackfills(spec.dag_id, state.now)
        yield from schedule_next_runs(msgspec.structs.replace(dag, is_stale=False), state.now, stored=state.dags[spec.dag_id])


def modules_of(spec: DagSpec, file: ParsedFile) -> tuple[ModuleSource, ...]:
    """What runs of the version need beside the file: its applications, and all modules if it has functions."""
    if _has_functions(spec):
        return file.modules
    applications = {(task.application_path, task.application_digest) for task in spec.tasks if isinstance(task, SubmitTask)}
    return tuple(module for module in file.modules if (module.path, module.digest) in applications)


def references_of(spec: DagSpec, dataset_ids: Mapping[str, int]) -> SetReferences:
    """The datasets that a DAG consumes by name or by pattern, and the datasets that its tasks produce."""
    named = dataset_uris(spec.schedule) if spec.schedule is not None else frozenset()
    found = sorted(patterns_of(spec))
    consumed = {id_ for uri, id_ in dataset_ids.items() if uri in named or any(_matches(pattern, uri) for pattern in found)}
    produced = {(task.task_id, dataset_ids[uri]) for task in spec.tasks for uri in task.outlets}
    return SetReferences(
        spec.dag_id, tuple(sorted(consumed)), tuple(sorted(produced)), tuple(found), spec.missed == "all", spec.start_date
    )


def _matches(pattern: str, uri: str) -> bool:
    """The prefix is compared first: that is cheap, and most datasets differ there."""
    return uri.startswith(literal_prefix(pattern)) and matches(pattern, uri)


def _at_version(dag: DagView, graph: Graph, now: datetime) -> Generator[NoteSchedule, None, DagView]:
    """The DAG at its new version. A new daily input deadline counts from now on, and so does a changed timetable."""
    is_new = graph.timing.deadline != dag.graph.timing.deadline
    is_daily = graph.timing.deadline is not None and graph.timing.deadline.at is not None
    edited = msgspec.structs.replace(dag, graph=graph, deadline_at=None if is_new and is_daily else dag.deadline_at)
    if (tick := tick_before_edit(dag, edited, now)) is None:
        return edited
    yield NoteSchedule(graph.dag_id, "tick_missed", f"the tick of {utc(tick.run_after)} made no run: {EDITED}", now)
    return msgspec.structs.replace(edited, last_tick=tick)


def is_unchanged(stored: StoredDag | None, spec: DagSpec, digest: str | None) -> bool:
    """Whether a parse gave the stored version, if there is one.

    Tasks and callbacks that are functions may change with any line of their file; everything else is in the serialised DAG.
    """
    if stored is None or stored.spec != spec:
        return False
    return stored.digest == digest or not _has_functions(spec)


def _has_functions(spec: DagSpec) -> bool:
    """Whether attempts or notifications of the DAG run its file."""
    receivers = (callback.receiver for part in (spec, *spec.tasks) for callback in part.callbacks)
    return any(isinstance(part, FunctionTask | FunctionReceiver) for part in (*spec.tasks, *receivers))
