"""DAG runs: lock, insert, update, journal, lists."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tidegate.schemas.effect import ChangeVersion, InsertRun, Reconsider, ReconsiderAfter, RunMoved, UpdateRun
from tidegate.schemas.queries.db import Db, columns
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import RunState, RunType
from tidegate.schemas.view import RunView

_SQL = load("runs")
_LOCK = _SQL["lock"]
_LOCK_OF_ATTEMPTS = _SQL["lock_of_attempts"]
_VIEWS = _SQL["views"]
_FIND = _SQL["find_runs"]
_CHANGE_VERSION = _SQL["change_version"]
_SET_ASIDE_TASKS = _SQL["set_aside_tasks"]
_PLACE_TASKS = _SQL["place_tasks"]
_SET_ASIDE_ATTEMPTS = _SQL["set_aside_attempts"]
_PLACE_ATTEMPTS = _SQL["place_attempts"]
_SET_ASIDE_RESULTS = _SQL["set_aside_results"]
_PLACE_RESULTS = _SQL["place_results"]
_DAGS_OF = _SQL["dags_of"]
_RECONSIDER = _SQL["reconsider"]
_RECONSIDER_AFTER = _SQL["reconsider_after"]
_TO_RECONSIDER = _SQL["to_reconsider"]
_TAKE_UP = _SQL["take_up"]
_BEFORE = _SQL["run_before"]
_INSERT = _SQL["insert_runs"]
_UPDATE = _SQL["update_runs"]
_LOG = _SQL["log_moves"]
_EXISTS = _SQL["exists"]
_OF_DATE = _SQL["run_of_date"]
_LIST = _SQL["list_runs"]
_EVENTS = _SQL["run_events"]
_TASKS = _SQL["run_tasks"]
_CONF = _SQL["run_conf"]
_JOURNAL = _SQL["run_journal"]
_ATTEMPTS = _SQL["run_attempts"]


class RunRow(msgspec.Struct, frozen=True):
    """A line of the list of runs. `unfinished` of `tasks` have no end state yet.

    `schedule_delay_s`: how long after `run_after` it started.
    """

    dag_id: str
    run_id: str
    run_type: str
    state: str
    run_after: datetime
    created_at: datetime
    start_date: datetime | None
    end_date: datetime | None
    version: int
    unfinished: int
    tasks: int
    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    schedule_delay_s: float | None


class RunEventRow(msgspec.Struct, frozen=True):
    """A dataset event that a run consumed."""

    uri: str
    source: str
    event_id: str
    occurred_at: datetime
    extra: dict[str, Any]


class RunTaskRow(msgspec.Struct, frozen=True):
    """A task instance with its newest attempt."""

    task_id: str
    state: str
    try_number: int
    start_date: datetime | None
    end_date: datetime | None
    next_try_at: datetime | None
    submission_id: UUID | None
    backend: str | None
    submission_state: str | None
    reason: str | None


class RunMoveRow(msgspec.Struct, frozen=True):
    """A line of a run's journal."""

    seq: int
    state: str
    reason: str
    at: datetime


class RunAttemptRow(msgspec.Struct, frozen=True):
    """An attempt of one of a run's tasks. `state` is the submission's; `reason` says why it ended as it did."""

    task_id: str
    try_number: int
    submission_id: UUID
    backend: str
    state: str
    host: str | None
    reason: str
    exit_code: int | None
    created_at: datetime
    submitted_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None


def run_view(row: Any) -> RunView:
    """A row of the columns of `RunView`, which are its fields in their order."""
    view = dict(zip(RunView.__struct_fields__, row, strict=True))
    view["run_type"], view["state"] = RunType(view["run_type"]), RunState(view["state"])
    return RunView(**view)


async def lock(db: Db, ids: Collection[int]) -> Mapping[int, RunView]:
    """Lock these runs, in the global order."""
    return {row["id"]: run_view(row) for row in await db.fetch(_LOCK, sorted(ids))} if ids else {}


async def lock_of_attempts(db: Db, submission_ids: Collection[UUID]) -> Mapping[int, RunView]:
    """Lock the runs that these attempts belong to, in the global order."""
    return {row["id"]: run_view(row) for row in await db.fetch(_LOCK_OF_ATTEMPTS, list(submission_ids))}


async def views(db: Db, ids: Collection[int]) -> Mapping[int, RunView]:
    """These runs as they are at the moment: for who only looks."""
    return {row["id"]: run_view(row) for row in await db.fetch(_VIEWS, list(ids))} if ids else {}


async def insert(db: Db, effects: Sequence[InsertRun]) -> None:
    await db.write("dag_run", _INSERT, *columns(effects), db.author, db.writer, db.upon)


async def update(db: Db, effects: Sequence[UpdateRun]) -> None:
    await db.write("dag_run", _UPDATE, *columns(effects))


async def log(db: Db, effects: Sequence[RunMoved]) -> None:
    """Write the journal; the same number twice for a run is refused."""
    rows = [(move.dag_run_id, move.event.seq, move.event.state, move.event.reason, move.event.at) for move in effects]
    await db.write("run_state_log", _LOG, *zip(*rows, strict=True))


async def matching(db: Db, dag_id: str, run_id: str | None, start: datetime | None, end: datetime | None) -> list[int]:
    """The run of this id, or all that come from `start` to `end` in the order of the DAG's runs."""
    return [row[0] for row in await db.fetch(_FIND, dag_id, run_id, start, end)]


async def change_version(db: Db, effects: Sequence[ChangeVersion]) -> None:
    ids = [effect.dag_run_id for effect in effects]
    await db.execute(_CHANGE_VERSION, ids, [e.version_id for e in effects], [e.max_active_tasks for e in effects])
    places = [(effect.dag_run_id, old, new) for effect in effects for old, new in effect.indices]
    for set_aside, place in (
        (_SET_ASIDE_TASKS, _PLACE_TASKS),
        (_SET_ASIDE_ATTEMPTS, _PLACE_ATTEMPTS),
        (_SET_ASIDE_RESULTS, _PLACE_RESULTS),
    ):
        await db.execute(set_aside, ids)
        await db.execute(place, *zip(*places, strict=True))


async def dags_of(db: Db, ids: Collection[int]) -> list[str]:
    """The DAGs of these runs."""
    return [row[0] for row in await db.fetch(_DAGS_OF, list(ids))]


async def reconsider(db: Db, effects: Sequence[Reconsider]) -> None:
    """A reason to stop stays, whoever else asks."""
    await db.write("run_to_reconsider", _RECONSIDER, *columns(effects))


async def reconsider_after(db: Db, effects: Sequence[ReconsiderAfter]) -> None:
    await db.execute(_RECONSIDER_AFTER, *columns(effects))


async def to_reconsider(db: Db, limit: int) -> list[int]:
    """The runs to be looked at as a whole, in the order in which that was asked for."""
    return [row[0] for row in await db.fetch(_TO_RECONSIDER, limit)]


async def taken_up(db: Db, ids: Collection[int]) -> Mapping[int, str | None]:
    """Those of these locked runs that were still to be looked at, with the reason to stop them; from now on they are not."""
    return {row[0]: row[1] for row in await db.fetch(_TAKE_UP, list(ids))}


async def before(db: Db, ids: Collection[int]) -> Mapping[int, tuple[int, RunState]]:
    """By run, the one of its DAG before it, and that one's state; the first of a DAG has none."""
    return {row[0]: (row[1], RunState(row[2])) for row in await db.fetch(_BEFORE, list(ids))}


async def exists(db: Db, dag_id: str, run_id: str) -> bool:
    return bool(await db.fetch(_EXISTS, dag_id, run_id))


async def run_of_date(db: Db, dag_id: str, logical_date: datetime) -> str | None:
    """The run of a DAG for a logical date: there is one at most."""
    rows = await db.fetch(_OF_DATE, dag_id, logical_date)
    return str(rows[0][0]) if rows else None


async def list_runs(
    db: Db,
    *,
    dag_id: str | None = None,
    state: RunState | None = None,
    run_id: str | None = None,
    run_type: RunType | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 100,
) -> list[RunRow]:
    """Newest first. `since` and `until` are about the logical date, or `run_after` of runs that have none."""
    return [RunRow(*row) for row in await db.fetch(_LIST, dag_id, state, run_id, limit, run_type, since, until)]


async def events_of(db: Db, dag_id: str, run_id: str) -> list[RunEventRow]:
    """The dataset events a run consumed, oldest first."""
    return [RunEventRow(*row) for row in await db.fetch(_EVENTS, dag_id, run_id)]


async def tasks_of(db: Db, dag_id: str, run_id: str) -> list[RunTaskRow]:
    """The task instances of a run in topological order; none before it started."""
    return [RunTaskRow(*row) for row in await db.fetch(_TASKS, dag_id, run_id)]


async def conf_of(db: Db, dag_id: str, run_id: str) -> dict[str, Any]:
    """What a run was given; empty for one that does not exist."""
    rows = await db.fetch(_CONF, dag_id, run_id)
    return dict(rows[0]["conf"]) if rows else {}


async def journal_of(db: Db, dag_id: str, run_id: str) -> list[RunMoveRow]:
    """Every move a run made, oldest first."""
    return [RunMoveRow(*row) for row in await db.fetch(_JOURNAL, dag_id, run_id)]


async def attempts_of(db: Db, dag_id: str, run_id: str) -> list[RunAttemptRow]:
    """The attempts of a run's tasks, in the order of the tasks, each task's oldest first."""
    return [RunAttemptRow(*row) for row in await db.fetch(_ATTEMPTS, dag_id, run_id)]
