"""DAGs: their files, versions and clocks, and the outcomes of their pending events."""

from datetime import datetime
from typing import Any, Literal

import msgspec

from tidegate.schemas.dag import DagSpec
from tidegate.schemas.view import PendingEvent


class RecordFile(msgspec.Struct, frozen=True):
    """What is known of a DAG file after a parse. `digest` None: it is not there; `absent_scans` counts how often in a row."""

    path: str
    digest: str | None
    absent_scans: int
    parse_duration_s: float


class RecordImportError(msgspec.Struct, frozen=True):
    """The file cannot be used as it is; its last good version stays in force."""

    path: str
    line: int | None
    reason: str


class ClearImportError(msgspec.Struct, frozen=True):
    """The file is fine again."""

    path: str


class StoreVersion(msgspec.Struct, frozen=True):
    """A DAG is new or changed: store the version, and make it the current one."""

    version_id: int
    number: int
    spec: DagSpec
    path: str
    digest: str
    source: str


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
    """An unchanged DAG is in this file again, or now: no longer stale."""

    dag_id: str
    path: str


class MarkStale(msgspec.Struct, frozen=True):
    """The DAG is in no file any more; it keeps its versions, runs and pending events."""

    dag_id: str


class DeleteDag(msgspec.Struct, frozen=True):
    """The DAG goes, with its versions, its runs, what waits for it and what became of its events."""

    dag_id: str


class SetPaused(msgspec.Struct, frozen=True):
    """Pause or unpause a DAG."""

    dag_id: str
    is_paused: bool


class CountFailures(msgspec.Struct, frozen=True):
    """The failed runs of the DAG since its last success."""

    dag_id: str
    failed_runs: int


class SetClock(msgspec.Struct, frozen=True):
    """The last decided tick of a DAG, and when the clock visits the DAG next; None: something else causes its next decision.

    `dataset_run_at`, `deadline_at` and `last_source` as in `tidegate.schemas.view.LockedDag`.
    """

    dag_id: str
    last_logical_date: datetime | None
    last_interval_start: datetime | None
    last_interval_end: datetime | None
    due_at: datetime | None
    dataset_run_at: datetime | None = None
    deadline_at: datetime | None = None
    last_source: str | None = None


class NoteSchedule(msgspec.Struct, frozen=True):
    """Record a decision about a schedule that made no run; the same one again is counted."""

    dag_id: str
    kind: Literal["tick_unmet", "deadline_run", "deadline_skip", "deadline_alert", "condition_error"]
    reason: str
    at: datetime


class ConsumeEvents(msgspec.Struct, frozen=True):
    """These pending events, and no others, made this run: record them with it and delete them from the queue."""

    dag_id: str
    dag_run_id: int
    events: tuple[PendingEvent, ...]


class DiscardEvents(msgspec.Struct, frozen=True):
    """These pending events make no run of this DAG; the reason is recorded."""

    dag_id: str
    events: tuple[PendingEvent, ...]
    reason: str


DagEffect = (
    RecordFile
    | RecordImportError
    | ClearImportError
    | StoreVersion
    | SetReferences
    | DescribeDataset
    | AdoptDag
    | MarkStale
    | DeleteDag
    | SetPaused
    | CountFailures
    | SetClock
    | NoteSchedule
    | ConsumeEvents
    | DiscardEvents
)
