"""What events say. How they are told apart from their envelope is in `envelope`.

In: `dag-file-changed`, `dataset-updated`, `task-finished`. Out: `dag-run-state`, `task-state`.
A field may be added with a default; it is never renamed, retyped or removed. Unknown fields are ignored, so that old readers
understand new writers. A new major version is a new `type`.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tidegate.schemas.conditions.condition import Uri
from tidegate.schemas.notice import MissedDeadline
from tidegate.schemas.state import RunState, RunType, TaskState
from tidegate.schemas.wire.openlineage import LineageEvent

MAX_RECORD_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_ID_LENGTH = 512
MAX_REASON_LENGTH = 10_000
"""How many characters of a reason are kept, so that whatever repeats it fits into a record and a row."""

Moment = Annotated[datetime, Meta(tz=True)]
Seq = Annotated[int, Meta(description="Counts 1, 2, 3 … per run, in this topic, without a gap.")]


class Rejection(StrEnum):
    """Classes of dead letters."""

    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    UNKNOWN_TYPE = "unknown_type"
    UNSUPPORTED_VERSION = "unsupported_version"
    INVALID = "invalid"
    UNKNOWN_ATTEMPT = "unknown_attempt"
    UNKNOWN_DATASET = "unknown_dataset"
    UNPROCESSABLE = "unprocessable"


ADVICE: Mapping[Rejection, str] = {
    Rejection.TOO_LARGE: "it can only be discarded; have its producer send less, say, a path to what it sends now",
    Rejection.MALFORMED: "it can only be discarded; have its producer send JSON, whole and not nested too deep",
    Rejection.UNKNOWN_TYPE: "its producer writes to the wrong topic, or says the wrong `ce_type`; mend that, and discard it",
    Rejection.UNSUPPORTED_VERSION: "replay it after an upgrade of Tidegate, or have its producer send what is understood",
    Rejection.INVALID: "mend its producer, `tidegate topics schema` says what is expected; then discard it",
    Rejection.UNKNOWN_ATTEMPT: "replay it if the attempt is known by now; if it is of another installation, discard it",
    Rejection.UNKNOWN_DATASET: "replay it once a DAG file names the dataset, or discard it",
    Rejection.UNPROCESSABLE: "the database refused what it says: mend its producer and discard it, or replay it after an upgrade",
}
"""What to do about a dead letter."""


class DagFileChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A file below the DAG folder is new, changed or gone. The event only names it; the content is read from the folder."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]


class DatasetUpdated(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset got new data. `extra` is any JSON object; the runs that consume the event can read it."""

    uri: Uri
    extra: dict[str, Any] = {}


class TaskFinished(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt ended. `submission_id` names the attempt; `reason` is for people, and kept as `storable` makes it.

    `follow`: the ids of those tasks directly after it that are to follow, all others being skipped; empty to skip everything
    after it; unset where the task made no choice. `result` is what it returned, if anything.
    """

    submission_id: UUID
    outcome: Literal["succeeded", "failed", "skipped", "killed", "lost"]
    reason: str = ""
    exit_code: Annotated[int, Meta(ge=-(2**31), lt=2**31)] | None = None
    started_at: Moment | None = None
    finished_at: Moment | None = None
    follow: Annotated[tuple[str, ...], Meta(max_length=10_000)] | UnsetType = UNSET
    result: Any | UnsetType = UNSET


def storable(reason: str) -> str:
    """A reason as Kafka and Postgres take it: cut to `MAX_REASON_LENGTH`, a space for NUL, ? for what is no character."""
    return reason[:MAX_REASON_LENGTH].replace("\0", " ").encode(errors="replace").decode()


class DagRunStateChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A run moved. `seq` counts 1, 2, 3 … per run without a gap: drop what is not above the last one seen.

    With a `missed_deadline` the run did not move: it is still in that state, and has just missed the deadline.
    """

    dag_id: str
    run_id: str
    seq: Seq
    state: Annotated[str, Meta(examples=[*RunState])]
    run_type: Annotated[str, Meta(examples=[*RunType])]
    run_after: Moment
    at: Moment
    reason: str = ""
    missed_deadline: MissedDeadline | UnsetType = UNSET


class TaskStateChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A task of a run moved. `seq` counts per run over all its tasks, without a gap."""

    dag_id: str
    run_id: str
    task_id: str
    try_number: int
    seq: Seq
    state: Annotated[str, Meta(examples=[*TaskState])]
    at: Moment
    reason: str = ""


Incoming = DagFileChanged | DatasetUpdated | TaskFinished | LineageEvent
StateChanged = DagRunStateChanged | TaskStateChanged


class Kind(StrEnum):
    """What a topic carries; also the middle part of its events' CloudEvents type."""

    DAG_FILE_CHANGED = "dag-file-changed"
    DATASET_UPDATED = "dataset-updated"
    TASK_FINISHED = "task-finished"
    DAG_RUN_STATE = "dag-run-state"
    TASK_STATE = "task-state"
    DEAD_LETTER = "dead-letter"


INCOMING = (Kind.DATASET_UPDATED, Kind.DAG_FILE_CHANGED, Kind.TASK_FINISHED)
"""What the daemons read: from anybody, and from each other."""


class EventId(msgspec.Struct, frozen=True, order=True):
    """CloudEvents identity: the same (source, id) is the same event, however often it arrives."""

    source: str
    id: str


TYPE_PREFIX = "tidegate."
VERSION = "v1"


def type_of(kind: Kind) -> str:
    """The CloudEvents type of today's events of a kind, `tidegate.dataset-updated.v1`."""
    return f"{TYPE_PREFIX}{kind}.{VERSION}"


DATA: Mapping[Kind, type[msgspec.Struct]] = {
    Kind.DAG_FILE_CHANGED: DagFileChanged,
    Kind.DATASET_UPDATED: DatasetUpdated,
    Kind.TASK_FINISHED: TaskFinished,
    Kind.DAG_RUN_STATE: DagRunStateChanged,
    Kind.TASK_STATE: TaskStateChanged,
}
"""The shape of what each kind of event says. A dead letter has none: it is a record as it came."""

encode = msgspec.json.Encoder().encode
