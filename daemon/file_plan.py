"""What changed DAG files will do once they are live.

The engine applies the files in a transaction, and the clock visits the DAGs that are due by that. The difference is read, and all
of it is undone. So a plan is what then happens, as long as no event and no run comes in between. It locks the DAGs that change
and no others, a few at a time.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

import anyio
import msgspec

from tidegate.daemon.containment import halves
from tidegate.daemon.engine import rehearse
from tidegate.daemon.file_groups import batches, groups_of
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.read_model.condition import schedule_text
from tidegate.daemon.read_model.plan import due_ticks, next_run
from tidegate.daemon.read_model.version import changes_of
from tidegate.handlers.dag_file_changed import ABSENT_SCANS, is_unchanged, patterns_of
from tidegate.schemas.conditions.condition import dataset_uris
from tidegate.schemas.dag import DagSpec, ParsedFile
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import ConsumeEvents, DiscardEvents, RecordImportError
from tidegate.schemas.effect.run import InsertRun, RunMoved
from tidegate.schemas.error import POSTGRES, DagFaultError, TooSlowError
from tidegate.schemas.message import Message, ScheduleDue
from tidegate.schemas.queries import file_plans, files
from tidegate.schemas.queries.dag_pages import plans
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.file_plans import ActiveRuns, DagState
from tidegate.schemas.queries.files import StoredDag
from tidegate.schemas.state import RunState

HOLD_S, ALONE_S = 3.0, 10.0
"""How long a batch of files may take, and files that cannot be divided: daemons that store files or events wait meanwhile."""

TOO_LARGE = "it takes too long to rehearse: it has too many events, runs or dates that are due"

MAX_VISITS = 10
"""The visits of the clock that a plan follows. Each starts up to a hundred runs by time."""

MOST_DUE = 10_000
"""Runs that are due are counted up to here."""

SCHEDULE = ("schedule", "timetable", "together")


class Difference(msgspec.Struct, frozen=True):
    """Datasets and patterns that come and go."""

    added: Sequence[str]
    removed: Sequence[str]


class Fates(msgspec.Struct, frozen=True):
    """The fates of the pending events of a DAG. `recorded` events become pending first, because the DAG has `catchup`."""

    recorded: int
    consumed: int
    discarded: Mapping[str, int]
    pending: int


class Side(msgspec.Struct, frozen=True):
    """A DAG before or after the change. `schedule` is empty without one; `next_run` is the next one by time."""

    version: int | None
    path: str
    schedule: str
    next_run: datetime | None


class PlannedDag(msgspec.Struct, frozen=True, kw_only=True):
    """A DAG that is `added`, `changed`, `moved`, `restored` or `removed`.

    `changes` says what else than the schedule differs. `new_runs` counts, by type, the runs that start at once; `started_runs`
    are queued runs that start because of it; `has_more`: further runs follow at once. `due_runs` are due by time, beside
    `new_runs`, and are counted up to one more than `MOST_DUE`; the ones of a paused DAG wait.
    `active_runs` go on with their versions.
    """

    dag_id: str
    action: str
    before: Side | None
    after: Side
    changes: Sequence[str]
    inputs: Difference
    outlets: Difference
    new_runs: Mapping[str, int]
    started_runs: int
    has_more: bool
    due_runs: int = 0
    events: Fates
    active_runs: Sequence[ActiveRuns]
    is_paused: bool
    is_released: bool


class FileProblem(msgspec.Struct, frozen=True):
    """A file that is not taken up; the DAGs that it defines stay at their versions."""

    path: str
    line: int | None
    reason: str
    dags: Sequence[str]


class Unplanned(msgspec.Struct, frozen=True):
    """Files that share DAGs of which a decision fails, so that daemons hold them, or takes too long for a plan."""

    paths: Sequence[str]
    reason: str


class FilePlan(msgspec.Struct, frozen=True):
    """The effects of the files. Omits unchanged DAGs, and files in folders that are `unreadable`."""

    dags: Sequence[PlannedDag] = ()
    problems: Sequence[FileProblem] = ()
    unplanned: Sequence[Unplanned] = ()
    unreadable: Sequence[str] = ()


class _Stand(NamedTuple):
    """DAGs at one time, the next runs of their timetables, and how many are due."""

    dags: Mapping[str, DagState]
    next_runs: Mapping[str, datetime]
    due: Mapping[str, int]


async def plan_files(database: Database, parsed: Sequence[ParsedFile]) -> FilePlan:
    """Raises UnavailableError."""
    stored = await database.run(_stored, parsed)
    changed = [file for file in parsed if may_change(file, stored)]
    parts = [part for batch in batches(changed, stored) for part in await _contained(database, batch, stored)]
    dags = sorted((dag for part in parts for dag in part.dags), key=attrgetter("dag_id"))
    problems = sorted((problem for part in parts for problem in part.problems), key=attrgetter("path"))
    return FilePlan(dags, problems, [unplanned for part in parts for unplanned in part.unplanned])


async def _contained(database: Database, batch: Sequence[ParsedFile], stored: Mapping[str, StoredDag]) -> list[FilePlan]:
    """The plan of the files; if a decision fails, those of each group, as the fault is one group's own; if slow, of halves."""
    groups = list(groups_of(batch, stored))
    try:
        return [await database.run(_plan, batch, ALONE_S if len(groups) == 1 else HOLD_S)]
    except DagFaultError as fault:
        parts, reason = groups, str(fault)
    except TooSlowError:
        parts, reason = [[file for group in half for file in group] for half in halves(groups) or ()], TOO_LARGE
    if len(groups) == 1:
        return [FilePlan(unplanned=[Unplanned([file.path for file in batch], reason)])]
    return [plan for part in parts for plan in await _contained(database, part, stored)]


async def _stored(db: Db, parsed: Sequence[ParsedFile]) -> Mapping[str, StoredDag]:
    """The DAGs that the files define, or that are stored for them."""
    dag_ids = [spec.dag_id for file in parsed for spec in file.dags]
    return {dag.dag_id: dag for dag in await files.stored_dags(db, [file.path for file in parsed], dag_ids)}


async def _plan(db: Db, batch: Sequence[ParsedFile], within_s: float) -> FilePlan:
    """Raises TooSlowError if a statement, or all before a visit, take longer than `within_s`."""
    dag_ids = {*await _stored(db, batch), *(spec.dag_id for file in batch for spec in file.dags)}
    async with db.undone():
        await file_plans.limit_statements(db, within_s)
        return await _rehearsed(db, batch, dag_ids, anyio.current_time() + within_s)


def may_change(file: ParsedFile, stored: Mapping[str, StoredDag]) -> bool:
    """Whether the file differs from what is stored."""
    if file.problem is not None or file.digest is None:
        return True
    defined = {spec.dag_id for spec in file.dags}
    known = {dag.dag_id for dag in stored.values() if dag.path == file.path and not dag.is_stale}
    return defined != known or not all(is_unchanged(stored[spec.dag_id], spec, file.digest) for spec in file.dags)


async def _rehearsed(db: Db, changed: Sequence[ParsedFile], dag_ids: Collection[str], until: float) -> FilePlan:
    await files.lock_files(db)
    before, active = await _stand(db, dag_ids), await file_plans.active_runs(db, dag_ids)
    effects: list[Effect] = []
    for _ in range(ABSENT_SCANS if any(file.digest is None for file in changed) else 1):
        last = await rehearse(db, [Message(body=file, at=db.now) for file in changed])
        effects += last
    acted = {id_ for id_, dag in (await file_plans.dags(db, dag_ids)).items() if _action(before.dags.get(id_), dag)}
    effects += await _visits(db, acted, until)
    after = await _stand(db, acted)
    of_dags = _by_dag(effects)
    planned = [_planned(before, after, id_, of_dags[id_], active.get(id_, ()), db.now) for id_ in sorted(acted)]
    return FilePlan(planned, list(_problems(last, before.dags)))


async def _visits(db: Db, dag_ids: Collection[str], until: float) -> list[Effect]:
    """The visits of the clock that are due at once. Raises TooSlowError."""
    effects: list[Effect] = []
    for _ in range(MAX_VISITS):
        due = [dag.dag_id for dag in (await file_plans.dags(db, dag_ids)).values() if _is_due(dag, db.now)]
        if not due:
            break
        if anyio.current_time() > until:
            raise TooSlowError(TOO_LARGE, server=POSTGRES)
        effects += await rehearse(db, [Message(body=ScheduleDue(dag_id=dag_id), at=db.now) for dag_id in due])
    return effects


def _is_due(dag: DagState, now: datetime) -> bool:
    return dag.due_at is not None and dag.due_at <= now


async def _stand(db: Db, dag_ids: Collection[str]) -> _Stand:
    timed = await plans(db, *dag_ids) if dag_ids else {}
    upcoming = {dag_id: planned.run_after for dag_id, dag in timed.items() if (planned := next_run(dag, db.now))}
    due = {dag_id: sum(1 for _ in islice(due_ticks(dag, db.now), MOST_DUE + 1)) for dag_id, dag in timed.items()}
    return _Stand(await file_plans.dags(db, dag_ids), upcoming, due)


def _action(before: DagState | None, after: DagState) -> str | None:
    """The change of the DAG in one word; None without one."""
    if before is None:
        return "added"
    if before.is_stale != after.is_stale:
        return "removed" if after.is_stale else "restored"
    if before.version != after.version:
        return "changed"
    return "moved" if before.path != after.path else None


def _by_dag(effects: Iterable[Effect]) -> Mapping[str, Sequence[Effect]]:
    """The effects on the runs and the pending events of each DAG."""
    found: dict[str, list[Effect]] = defaultdict(list)
    for effect in effects:
        match effect:
            case InsertRun() | ConsumeEvents() | DiscardEvents():
                found[effect.dag_id].append(effect)
            case RunMoved():
                found[effect.event.dag_id].append(effect)
            case _:
                pass
    return found


def _planned(
    before: _Stand, after: _Stand, dag_id: str, effects: Sequence[Effect], active: Sequence[ActiveRuns], now: datetime
) -> PlannedDag:
    old, new = before.dags.get(dag_id), after.dags[dag_id]
    old_spec, new_spec = _readable(old), None if new.is_stale else _readable(new)
    return PlannedDag(
        dag_id=dag_id,
        action=_action(old, new) or "",
        before=_side(before, dag_id) if old else None,
        after=_side(after, dag_id),
        changes=_changes(old, new),
        inputs=_difference(_inputs(old_spec), _inputs(new_spec)),
        outlets=_difference(_outlets(old_spec), _outlets(new_spec)),
        new_runs=Counter(effect.run_type.value for effect in effects if isinstance(effect, InsertRun)),
        started_runs=_started(effects),
        has_more=_is_due(new, now),
        due_runs=after.due.get(dag_id, 0),
        events=_fates(old, new, effects),
        active_runs=active,
        is_paused=new.is_paused,
        is_released=bool(old and old.is_held and not new.is_held),
    )


def _side(stand: _Stand, dag_id: str) -> Side:
    dag = stand.dags[dag_id]
    spec = _readable(dag)
    schedule = schedule_text(spec.schedule, spec.timetable, together=spec.together) if spec else ""
    return Side(dag.version, dag.path, schedule, stand.next_runs.get(dag_id))


def _readable(dag: DagState | None) -> DagSpec | None:
    """The spec of a DAG; None without one that can be read."""
    try:
        return msgspec.convert(dag.spec, DagSpec) if dag else None
    except msgspec.ValidationError:
        return None


def _changes(old: DagState | None, new: DagState) -> Sequence[str]:
    """The changes of a new version, without those of its schedule."""
    if old is None or old.version == new.version or not isinstance(old.spec, dict):
        return ()
    if old.spec == new.spec:
        return ("the code of its functions",)
    return [change for change in changes_of(old.spec, new.spec) if change.split(" ")[0] not in SCHEDULE]


def _inputs(spec: DagSpec | None) -> set[str]:
    return {*dataset_uris(spec.schedule), *patterns_of(spec)} if spec and spec.schedule is not None else set()


def _outlets(spec: DagSpec | None) -> set[str]:
    return {uri for task in spec.tasks for uri in task.outlets} if spec else set()


def _difference(before: Collection[str], after: Collection[str]) -> Difference:
    return Difference(sorted({*after} - {*before}), sorted({*before} - {*after}))


def _started(effects: Sequence[Effect]) -> int:
    """The number of queued runs that start."""
    new = {effect.id for effect in effects if isinstance(effect, InsertRun)}
    moves = (effect for effect in effects if isinstance(effect, RunMoved) and effect.event.state == RunState.RUNNING)
    return len({move.dag_run_id for move in moves} - new)


def _fates(old: DagState | None, new: DagState, effects: Sequence[Effect]) -> Fates:
    consumed = sum(len(effect.events) for effect in effects if isinstance(effect, ConsumeEvents))
    discarded: Counter[str] = Counter()
    for effect in effects:
        if isinstance(effect, DiscardEvents):
            discarded[effect.reason] += len(effect.events)
    recorded = new.pending + consumed + discarded.total() - (old.pending if old else 0)
    return Fates(recorded, consumed, discarded, new.pending)


def _problems(effects: Iterable[Effect], before: Mapping[str, DagState]) -> Iterator[FileProblem]:
    for effect in effects:
        if isinstance(effect, RecordImportError):
            dags = sorted(dag.dag_id for dag in before.values() if dag.path == effect.path and not dag.is_stale)
            yield FileProblem(effect.path, effect.line, effect.reason, dags)
