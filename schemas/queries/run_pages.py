"""Reads runs for people: lists of runs, and the records and the origin of a run."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tidegate.schemas.graph import element_index, is_removed, label, position_of
from tidegate.schemas.notice import FailedTask, instance_name
from tidegate.schemas.queries import tasks
from tidegate.schemas.queries.counting import EXTRA_BYTES
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.producers import with_producer
from tidegate.schemas.queries.sql import load
from tidegate.schemas.state import RunState, RunStateName, RunType, RunTypeName, SubmissionStateName, TaskStateName
from tidegate.schemas.wire.event import Producer

_SQL = load("run_pages")

MOST_CONSUMERS = 1_000_000
"""The most runs that are read for the filter by a dataset."""

MAX_LABEL = 60
"""The most characters of what names an instance of a mapped task."""

LAST_INDEX = 2**31 - 1
"""The largest index that the column can have."""


class RunRow(msgspec.Struct, frozen=True):
    """A line of the list of runs. `unfinished` of `tasks` have no end state.

    `schedule_delay_s` is the time from `run_after` to the start. `backfill_id` is the last backfill that ran it.
    """

    dag_id: str
    run_id: str
    run_type: RunTypeName
    state: RunStateName
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
    backfill_id: int | None


class RunEventRow(msgspec.Struct, frozen=True):
    """A dataset event that a run consumed. `extra` is None after the first events, whose extra is as much as is read at once."""

    uri: str
    source: str
    event_id: str
    occurred_at: datetime
    extra: dict[str, Any] | None
    producer: Producer | None = None


class RunTaskRow(msgspec.Struct, frozen=True):
    """A task instance with its newest attempt. `reason` says why it has its state, also without an attempt.

    `map_label` names the element of an instance of a mapped task for people: the field that `map_label` of the task names, or the
    element, shortened.
    """

    task_id: str
    map_index: int | None
    state: TaskStateName
    try_number: int
    start_date: datetime | None
    end_date: datetime | None
    next_try_at: datetime | None
    submission_id: UUID | None
    backend: str | None
    submission_state: SubmissionStateName | None
    reason: str | None
    map_label: str | None = None

    @property
    def label(self) -> str:
        """The name that commands take: `load`, or `load[3]` for an instance of a mapped task."""
        return instance_name(self.task_id, self.map_index)

    @property
    def title(self) -> str:
        """The name, and what names its element for people: `load[3] 2013-01-04`."""
        return f"{self.label} {self.map_label}" if self.map_label else self.label


class IndexedTask(msgspec.Struct, frozen=True):
    """A task instance with its index, which orders those of its run. That of a removed one is negative and stays."""

    index: int
    row: RunTaskRow


class RunMoveRow(msgspec.Struct, frozen=True):
    """A line of a run's journal."""

    seq: int
    state: RunStateName
    reason: str
    at: datetime


class RunAttemptRow(msgspec.Struct, frozen=True):
    """An attempt of one of a run's tasks. `state` is the submission's; `reason` says why it ended.

    `log_path` and `log_tail` are the log file on `host` and its last lines, of attempts that did not succeed.
    """

    task_id: str
    map_index: int | None
    try_number: int
    submission_id: UUID
    backend: str
    state: SubmissionStateName
    host: str | None
    reason: str
    exit_code: int | None
    created_at: datetime
    submitted_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    log_path: str | None = None
    log_tail: str | None = None

    @property
    def label(self) -> str:
        """As `RunTaskRow.label`."""
        return instance_name(self.task_id, self.map_index)


class EventCount(msgspec.Struct, frozen=True):
    """How many events a run consumed, and how many its limit left pending, at least."""

    consumed: int
    left_pending: int


class OriginFacts(msgspec.Struct, frozen=True):
    """A run and its origin: `creator` created it on a message of the kind `cause`; None if that was not recorded.

    `events` counts the consumed events, also those older than the retention of the ledger; None if unknown.
    `events_left`: at least this number of events stayed pending because of the limit of the run.
    """

    run_type: RunTypeName
    state: RunStateName
    run_after: datetime
    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    created_at: datetime
    creator: str | None
    cause: str | None
    start_date: datetime | None
    end_date: datetime | None
    events: int | None
    events_left: int
    version: int
    version_at: datetime
    path: str


class Origin(OriginFacts, frozen=True):
    """`spec` is the serialised DAG at the `version` that the run is pinned to."""

    id: int
    spec: Any


class ConsumedEventRow(msgspec.Struct, frozen=True):
    """A dataset event that a run consumed. For an event older than the retention all fields but `number` are None.

    `extra` is also None after the first events, whose extra is as much as is read at once.
    """

    number: int
    uri: str | None
    source: str | None
    id: str | None
    occurred_at: datetime | None
    received_at: datetime | None
    extra: dict[str, Any] | None
    producer: Producer | None = None


class Steps(msgspec.Struct, frozen=True):
    """An attempt with the times of its steps. `task` is the name of the task instance in the run."""

    task: str
    try_number: int
    turn_at: datetime | None
    admitted_at: datetime
    submitted_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    state: SubmissionStateName
    host: str | None


async def list_runs(
    db: Db,
    *,
    dag_id: str | None = None,
    state: RunState | None = None,
    run_id: str | None = None,
    run_type: RunType | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    backfill_id: int | None = None,
    dag_ids: Collection[str] | None = None,
    ids: Collection[int] | None = None,
    before: int | None = None,
    number: int | None = None,
    limit: int = 100,
) -> list[RunRow]:
    """Runs, newest first; those before the number of a run. `since` and `until` compare the logical date or `run_after`."""
    filters = (dag_id, state, run_id, limit, run_type, since, until, backfill_id, before, number, dag_ids, ids)
    return [RunRow(*row) for row in await db.fetch(_SQL["list_runs"], *filters)]


async def list_filtered(db: Db, *, tag: str | None = None, dataset: str | None = None, **filters: Any) -> list[RunRow]:
    """As `list_runs`; `tag`: of DAGs that have it; `dataset`: runs that consumed an event of this URI."""
    dag_ids = None if tag is None else [row[0] for row in await db.fetch(_SQL["tagged"], tag)]
    ids = None if dataset is None else [row[0] for row in await db.fetch(_SQL["of_dataset"], dataset, MOST_CONSUMERS)]
    return await list_runs(db, dag_ids=dag_ids, ids=ids, **filters)


async def number_of(db: Db, dag_id: str, run_id: str) -> int | None:
    """The number of a run, which orders runs by their creation; None for an unknown run."""
    rows = await db.fetch(_SQL["run_number"], dag_id, run_id)
    return rows[0]["id"] if rows else None


async def run_of(db: Db, dag_id: str, run_id: str | None) -> RunRow | None:
    """The run of this id, or the newest one for None; None for an unknown one."""
    number = await _newest_number(db, dag_id) if run_id is None else await number_of(db, dag_id, run_id)
    found = await list_runs(db, number=number, limit=1) if number is not None else []
    return found[0] if found else None


async def _newest_number(db: Db, dag_id: str) -> int | None:
    ((number,),) = await db.fetch(_SQL["newest_number"], dag_id)
    return int(number) if number is not None else None


async def events_of(db: Db, dag_id: str, run_id: str, extra_bytes: int = EXTRA_BYTES) -> list[RunEventRow]:
    """The dataset events that a run consumed, oldest first, without events older than the retention."""
    return [RunEventRow(*with_producer(row)) for row in await db.fetch(_SQL["run_events"], dag_id, run_id, extra_bytes)]


async def event_count(db: Db, dag_id: str, run_id: str) -> EventCount:
    """The number of events that an existing run consumed, with events older than the retention."""
    (row,) = await db.fetch(_SQL["run_event_count"], dag_id, run_id)
    return EventCount(*row)


async def tasks_of(db: Db, dag_id: str, run_id: str) -> list[RunTaskRow]:
    """The task instances of a run in topological order; none before it started."""
    return [task.row for task in await page_of_tasks(db, dag_id, run_id)]


async def page_of_tasks(
    db: Db, dag_id: str, run_id: str, *, after: int | None = None, limit: int | None = None, state: str | None = None
) -> list[IndexedTask]:
    """As `tasks_of`, those after an index, in a state."""
    rows = await db.fetch(_SQL["run_tasks"], dag_id, run_id, *indices_after(after), limit, state, None)
    found = [IndexedTask(index, RunTaskRow(*columns)) for index, *columns in rows]
    labels = await map_labels(db, dag_id, run_id, [task.row for task in found])
    return [IndexedTask(task.index, _with_label(task.row, labels)) for task in found] if labels else found


async def task_of(db: Db, dag_id: str, run_id: str, name: str) -> RunTaskRow | None:
    """The task instance with a label. One that was removed and added again is the added one."""
    rows = await db.fetch(_SQL["run_tasks"], dag_id, run_id, *indices_after(None), 1, None, name)
    task = RunTaskRow(*tuple(rows[0])[1:]) if rows else None
    return task and _with_label(task, await map_labels(db, dag_id, run_id, [task]))


def _with_label(row: RunTaskRow, labels: Mapping[tuple[str, int | None], str]) -> RunTaskRow:
    label = labels.get((row.task_id, row.map_index))
    return row if label is None else msgspec.structs.replace(row, map_label=label)


async def map_labels(db: Db, dag_id: str, run_id: str, rows: Sequence[RunTaskRow]) -> Mapping[tuple[str, int | None], str]:
    """By task and element, what names the instances of mapped tasks for people; without their list nothing."""
    wanted = [(row.task_id, row.map_index) for row in rows if row.map_index is not None]
    found = await db.fetch(_SQL["map_labels"], dag_id, run_id, *zip(*wanted, strict=True)) if wanted else ()
    return {(task_id, map_index): shortened(label) for task_id, map_index, label in found if label}


def shortened(label: str) -> str:
    """In one line, of at most MAX_LABEL characters."""
    text = " ".join(label.split())
    return text if len(text) <= MAX_LABEL else f"{text[: MAX_LABEL - 1]}…"


def indices_after(index: int | None) -> tuple[int, int, int]:
    """The indices after which the tasks, the instances of mapped tasks and the removed tasks follow this one; None: all do."""
    if index is None:
        return -1, element_index(0, 0) - 1, -LAST_INDEX - 1
    if is_removed(index):
        return LAST_INDEX, LAST_INDEX, index
    position = position_of(index)
    return position, min(max(index, element_index(position, 0) - 1), LAST_INDEX), -LAST_INDEX - 1


async def index_of(db: Db, run: RunRow, task_id: str, map_index: int | None) -> int | None:
    """The index of a task instance that is not removed; None where the run has no such task."""
    rows = await db.fetch(_SQL["task_index"], run.dag_id, run.run_id, task_id, map_index)
    return rows[0]["task_index"] if rows else None


async def failures_of(db: Db, dag_id: str, run_id: str, limit: int) -> tuple[FailedTask, ...]:
    """The first failed tasks of an existing run."""
    ((number,),) = await db.fetch(_SQL["run_number"], dag_id, run_id)
    return (await tasks.failures(db, [number], limit)).get(number, ())


async def conf_of(db: Db, dag_id: str, run_id: str) -> dict[str, Any]:
    """The conf of a run; empty for one that does not exist."""
    rows = await db.fetch(_SQL["run_conf"], dag_id, run_id)
    return dict(rows[0]["conf"]) if rows else {}


async def journal_of(db: Db, dag_id: str, run_id: str) -> list[RunMoveRow]:
    """Every change of a run's state, oldest first."""
    return [RunMoveRow(*row) for row in await db.fetch(_SQL["run_journal"], dag_id, run_id)]


async def state_reason(db: Db, dag_id: str, run_id: str) -> str:
    """Why a run has its state; empty if that was not recorded."""
    rows = await db.fetch(_SQL["state_reason"], dag_id, run_id)
    return rows[0]["reason"] if rows else ""


async def states_of(db: Db, dag_id: str, run_id: str) -> Mapping[str, int]:
    """The number of the task instances of a run in each state that occurs."""
    return dict(map(tuple, await db.fetch(_SQL["run_states"], dag_id, run_id)))


async def attempts_of(
    db: Db, dag_id: str, run_id: str, label: str | None = None, states: Collection[str] | None = None
) -> list[RunAttemptRow]:
    """The attempts of a run, or of one of its task instances, in one of these states, by task, oldest first."""
    rows = await db.fetch(_SQL["run_attempts"], dag_id, run_id, label, None, None if states is None else sorted(states))
    return [RunAttemptRow(*columns) for _, *columns in rows]


async def attempts_at(db: Db, dag_id: str, run_id: str, indexes: Sequence[int]) -> list[tuple[int, RunAttemptRow]]:
    """As `attempts_of`, those of the task instances with these indexes, each with the index."""
    rows = await db.fetch(_SQL["run_attempts"], dag_id, run_id, None, indexes, None)
    return [(index, RunAttemptRow(*columns)) for index, *columns in rows]


async def origin(db: Db, dag_id: str, run_id: str) -> Origin:
    """The origin of an existing run."""
    (row,) = await db.fetch(_SQL["origin"], dag_id, run_id)
    return Origin(*row)


async def consumed(db: Db, dag_run_id: int, extra_bytes: int = EXTRA_BYTES) -> list[ConsumedEventRow]:
    """The consumed events of a run, in the order of their arrival."""
    return [ConsumedEventRow(*with_producer(row)) for row in await db.fetch(_SQL["consumed"], dag_run_id, extra_bytes)]


async def steps(db: Db, dag_run_id: int, limit: int) -> list[Steps]:
    """The first attempts of a run, in the order of their admission."""
    return [_steps(*row) for row in await db.fetch(_SQL["steps"], dag_run_id, limit)]


def _steps(task_id: str, index: int, *rest: Any) -> Steps:
    return Steps(label(task_id, index), *rest)
