"""DAG runs: lock, insert, update, journal, lists."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tidegate.schemas.effect import InsertRun, RunMoved, UpdateRun
from tidegate.schemas.queries.db import Db, columns
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import RunState, RunType
from tidegate.schemas.view import RunView

_SQL = load("runs")
_LOCK = _SQL["lock"]
_INSERT = _SQL["insert_runs"]
_UPDATE = _SQL["update_runs"]
_LOG = _SQL["log_moves"]
_EXISTS = _SQL["exists"]
_LIST = _SQL["list_runs"]
_EVENTS = _SQL["run_events"]
_TASKS = _SQL["run_tasks"]
_CONF = _SQL["run_conf"]
_JOURNAL = _SQL["run_journal"]
_ATTEMPTS = _SQL["run_attempts"]


class RunRow(msgspec.Struct, frozen=True):
    """A line of the list of runs. `unfinished` of `tasks` have no end state yet."""

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
    """A row of the columns of `RunView`."""
    id_, dag_id, run_id, run_type, state, version_id, run_after, state_seq, task_seq, unfinished, failed, start = row
    return RunView(
        id=id_,
        dag_id=dag_id,
        run_id=run_id,
        run_type=RunType(run_type),
        state=RunState(state),
        version_id=version_id,
        run_after=run_after,
        state_seq=state_seq,
        task_seq=task_seq,
        unfinished=unfinished,
        failed_leaves=failed,
        start_date=start,
    )


async def lock(db: Db, ids: Collection[int]) -> Mapping[int, RunView]:
    """Lock these runs, in the global order."""
    return {row["id"]: run_view(row) for row in await db.fetch(_LOCK, sorted(ids))} if ids else {}


async def insert(db: Db, effects: Sequence[InsertRun]) -> None:
    await db.execute(_INSERT, *columns(effects))


async def update(db: Db, effects: Sequence[UpdateRun]) -> None:
    await db.execute(_UPDATE, *columns(effects))


async def log(db: Db, effects: Sequence[RunMoved]) -> None:
    """Write the journal; the same number twice for a run is refused."""
    rows = [(move.dag_run_id, move.event.seq, move.event.state, move.event.reason, move.event.at) for move in effects]
    await db.execute(_LOG, *zip(*rows, strict=True))


async def exists(db: Db, dag_id: str, run_id: str) -> bool:
    return bool(await db.fetch(_EXISTS, dag_id, run_id))


async def list_runs(
    db: Db, *, dag_id: str | None = None, state: RunState | None = None, run_id: str | None = None, limit: int = 100
) -> list[RunRow]:
    """Newest first."""
    return [RunRow(*row) for row in await db.fetch(_LIST, dag_id, state, run_id, limit)]


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
