"""Effects on DAGs: files, versions, the next due time, and the outcomes of pending events."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from tidegate.schemas.dag import DagSpec, ModuleSource
from tidegate.schemas.message import HistoryPart
from tidegate.schemas.view import PendingEvent


class RecordFile(msgspec.Struct, frozen=True):
    """A DAG file after a parse. `digest` None: the file does not exist; `absent_scans` counts consecutive scans without it.

    `imports` are the digests of the files that it depends on.
    """

    path: str
    digest: str | None
    absent_scans: int
    parse_duration_s: float
    imports: Mapping[str, str] = {}


class RecordImportError(msgspec.Struct, frozen=True):
    """The import of the file failed; the versions of its last good import stay current."""

    path: str
    line: int | None
    reason: str


class RecordAwaitedError(RecordImportError, frozen=True):
    """The file is still being parsed. Users see that as its import error until there is a result."""


class ClearImportError(msgspec.Struct, frozen=True):
    """The file has no import error."""

    path: str


class StoreVersion(msgspec.Struct, frozen=True):
    """Store the version of a new or changed DAG, and make it the current one.

    `modules` are its applications and the modules that its functions import. `paused`: a new DAG begins paused.
    """

    version_id: int
    number: int
    spec: DagSpec
    path: str
    digest: str
    source: str
    modules: tuple[ModuleSource, ...] = ()
    paused: bool = False


class SetReferences(msgspec.Struct, frozen=True):
    """The DAG refers to these datasets and patterns, and to no others.

    `consumed` are ids of datasets, `produced` pairs of task and dataset. `backfills`: recorded events of newly consumed datasets
    become pending; with `backfill_since`, only events that occurred from then on.
    """

    dag_id: str
    consumed: tuple[int, ...] = ()
    produced: tuple[tuple[str, int], ...] = ()
    patterns: tuple[str, ...] = ()
    backfills: bool = False
    backfill_since: datetime | None = None


class DescribeDataset(msgspec.Struct, frozen=True):
    """The name and the extra that a DAG file gives a dataset."""

    uri: str
    name: str
    extra: dict[str, Any]


class AdoptDag(msgspec.Struct, frozen=True):
    """An unchanged DAG is defined in this file from now on, and no longer stale."""

    dag_id: str
    path: str


class MarkStale(msgspec.Struct, frozen=True):
    """No file defines the DAG; it keeps its versions, runs and pending events."""

    dag_id: str


class DeleteHistory(msgspec.Struct, frozen=True):
    """Delete the oldest rows of a part of the history of the DAG: at most as many runs, or rows for as many."""

    dag_id: str
    part: HistoryPart
    runs: int


class DeleteDag(msgspec.Struct, frozen=True):
    """Delete the DAG with its versions, runs, pending events and outcomes of events."""

    dag_id: str


class SetPaused(msgspec.Struct, frozen=True):
    """Pause or unpause a DAG."""

    dag_id: str
    is_paused: bool


class CountFailures(msgspec.Struct, frozen=True):
    """The failed runs of the DAG since its last success."""

    dag_id: str
    failed_runs: int


class UpdateSchedule(msgspec.Struct, frozen=True):
    """The last decided tick of a DAG, and when the clock visits the DAG next; None: something else causes its next decision.

    `dataset_run_at`, `deadline_at`, `last_source` and `catchup_until` as in `tidegate.schemas.view.LockedDag`.
    """

    dag_id: str
    last_logical_date: datetime | None
    last_interval_start: datetime | None
    last_interval_end: datetime | None
    due_at: datetime | None
    dataset_run_at: datetime | None = None
    deadline_at: datetime | None = None
    last_source: str | None = None
    catchup_until: datetime | None = None


class WakeDag(msgspec.Struct, frozen=True):
    """The clock visits the DAG `at` this time, or before."""

    dag_id: str
    at: datetime


class DeferDag(msgspec.Struct, frozen=True):
    """The clock decides about the DAG, whose row another session holds, once the row is free."""

    dag_id: str
    at: datetime


class ReleaseDag(msgspec.Struct, frozen=True):
    """The DAG is held no longer; the clock visits it `at` this time."""

    dag_id: str
    at: datetime


NoteKind = Literal["tick_unmet", "tick_missed", "deadline_run", "deadline_skip", "deadline_alert", "condition_error"]


class NoteSchedule(msgspec.Struct, frozen=True):
    """Record a decision about a schedule that made no run; a repeated one increments its count."""

    dag_id: str
    kind: NoteKind
    reason: str
    at: datetime


class ConsumeEvents(msgspec.Struct, frozen=True):
    """A run consumed exactly these pending events: record them with it and delete them from the queue."""

    dag_id: str
    dag_run_id: int
    events: tuple[PendingEvent, ...]


class DiscardEvents(msgspec.Struct, frozen=True):
    """Delete pending events that make no run of this DAG, and record the reason."""

    dag_id: str
    events: tuple[PendingEvent, ...]
    reason: str


DagEffect = (
    RecordFile
    | RecordImportError
    | RecordAwaitedError
    | ClearImportError
    | StoreVersion
    | SetReferences
    | DescribeDataset
    | AdoptDag
    | MarkStale
    | DeleteHistory
    | DeleteDag
    | SetPaused
    | CountFailures
    | UpdateSchedule
    | WakeDag
    | DeferDag
    | ReleaseDag
    | NoteSchedule
    | ConsumeEvents
    | DiscardEvents
)
