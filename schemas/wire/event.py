"""The data of events. `envelope` decodes them.

In: `dag-file-changed`, `dataset-updated`, `task-finished`. Out: `dag-run-state`, `task-state`.
A field may be added with a default; it is never renamed, retyped or removed. Readers ignore unknown fields. A new major version
is a new `type`. The docstrings of the structs are published as descriptions of their schemas.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tidegate.schemas.conditions.condition import Uri
from tidegate.schemas.notice import FailedTask, LogExcerpt, MissedDeadline, instance_name
from tidegate.schemas.state import RunState, RunType, TaskState
from tidegate.schemas.time_range import Moment
from tidegate.schemas.wire.openlineage import LineageEvent

MAX_RECORD_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_ID_LENGTH = 512
MAX_ID_BYTES = 1024
"""An id and a source in UTF-8: both fit together into a row of an index of Postgres, which has at most 2,704 bytes."""
MAX_LOG_TAIL = 4_000
"""The most characters of the last lines of a log."""
MAX_REASON_LENGTH = 10_000
"""Longer reasons are cut to this many characters, so that they fit into a record and a row."""

FINISH_SOURCE = "tidegate/submission"
"""The source of the event that ends an attempt. Runners and daemons use the same event id, so it counts once."""

ExitCode = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
MapIndex = Annotated[int, Meta(ge=0, lt=2**31)]
Follow = Annotated[tuple[str, ...], Meta(max_length=10_000)]
Seq = Annotated[int, Meta(description="Counts 1, 2, 3 … per run, in this topic, without a gap.")]


class Rejection(StrEnum):
    """Why a record became a dead letter."""

    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    UNKNOWN_TYPE = "unknown_type"
    UNSUPPORTED_VERSION = "unsupported_version"
    INVALID = "invalid"
    UNKNOWN_ATTEMPT = "unknown_attempt"
    WRONG_TOKEN = "wrong_token"  # noqa: S105 - the name of a reason
    UNKNOWN_DATASET = "unknown_dataset"
    CONFLICTING_ID = "conflicting_id"
    UNSIGNED = "unsigned"
    DAG_HELD = "dag_held"
    UNPROCESSABLE = "unprocessable"


ADVICE: Mapping[Rejection, str] = {
    Rejection.TOO_LARGE: "discard it, and let its producer send less, such as a path to the content",
    Rejection.MALFORMED: "discard it, and let its producer send complete JSON with at most 64 levels",
    Rejection.UNKNOWN_TYPE: "correct the topic or the `ce_type` of its producer, and discard it",
    Rejection.UNSUPPORTED_VERSION: "replay it after an upgrade of Tidegate, or let its producer send a supported version",
    Rejection.INVALID: "correct its producer (`tidegate topics schema` prints the expected shape), and discard it",
    Rejection.UNKNOWN_ATTEMPT: "replay it if the attempt is known now; discard it if it belongs to another installation",
    Rejection.WRONG_TOKEN: "discard it, and find its sender: only the process of the attempt has the token",
    Rejection.UNKNOWN_DATASET: "replay it once a DAG file names the dataset, or discard it",
    Rejection.CONFLICTING_ID: "let its producer give each event an id of its own; replay it as another event, or discard it",
    Rejection.UNSIGNED: "let its sender use a source of its own; replay it as an event that no task made, or discard it",
    Rejection.DAG_HELD: "release the DAG (`tidegate dags list` names it), and replay it",
    Rejection.UNPROCESSABLE: "the database could not take it: correct its producer and discard it, or replay it after an upgrade",
}
"""What to do about a dead letter, by its reason."""


class DagFileChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A file below the DAG folder is new, changed or gone. The event only names it; the content is read from the folder."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]


class DatasetUpdated(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset got new data. `extra` is any JSON object; the runs that consume the event can read it."""

    uri: Uri
    extra: dict[str, Any] = {}


class Producer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The task whose attempt produced a dataset event. An instance of a mapped task has a `map_index`."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: MapIndex | None = None

    @property
    def label(self) -> str:
        """The name of the task instance in its run, such as `load` or `load[3]`."""
        return instance_name(self.task_id, self.map_index)


class TaskFinished(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt ended. `submission_id` names the attempt. `reason` is for people; `storable` cuts it.

    `token` is the secret that the process of the attempt got with its job. An end without it does not count.

    `follow`: the direct downstream tasks that run; the others are skipped. It is empty to skip all of them, and unset if the task
    made no choice. `result` is what the task returned.

    `log`: the place and the last lines of the log of an attempt that did not succeed.

    `outlets`: by URI, the extra that a succeeded attempt gives the event of an outlet of its task. `events`: further dataset
    events that it publishes.
    """

    submission_id: UUID
    token: Annotated[str, Meta(max_length=64)] | UnsetType = UNSET
    outcome: Literal["succeeded", "failed", "skipped", "killed", "lost"]
    reason: str = ""
    exit_code: ExitCode | None = None
    started_at: Moment | None = None
    finished_at: Moment | None = None
    follow: Follow | UnsetType = UNSET
    result: Any | UnsetType = UNSET
    outlets: dict[str, dict[str, Any]] | UnsetType = UNSET
    events: tuple[DatasetUpdated, ...] | UnsetType = UNSET
    log: LogExcerpt | UnsetType = UNSET


def storable(reason: str) -> str:
    """A reason that Kafka and Postgres accept: cut to `MAX_REASON_LENGTH`, a space for NUL, ? for unpaired surrogates."""
    return reason[:MAX_REASON_LENGTH].replace("\0", " ").encode(errors="replace").decode()


class DagRunStateChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run changed. `seq` counts 1, 2, 3 … per run without a gap: drop what is not above the last one seen.

    With a `missed_deadline` the state did not change: the run has just missed the deadline.
    `failed_tasks`: the first failed tasks, if the run failed because of them.
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
    failed_tasks: tuple[FailedTask, ...] | UnsetType = UNSET


class TaskStateChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a task of a run changed. `seq` counts per run over all its tasks, without a gap.

    An instance of a mapped task has a `map_index`. `log` is that of an attempt that failed.
    """

    dag_id: str
    run_id: str
    task_id: str
    try_number: int
    seq: Seq
    state: Annotated[str, Meta(examples=[*TaskState])]
    at: Moment
    reason: str = ""
    map_index: MapIndex | UnsetType = UNSET
    log: LogExcerpt | UnsetType = UNSET

    @property
    def label(self) -> str:
        """The name of the task instance in its run, such as `load` or `load[3]`."""
        return instance_name(self.task_id, self.map_index)


Incoming = DagFileChanged | DatasetUpdated | TaskFinished | LineageEvent
StateChanged = DagRunStateChanged | TaskStateChanged


class Kind(StrEnum):
    """The kind of event of a topic, and the middle part of its CloudEvents type."""

    DAG_FILE_CHANGED = "dag-file-changed"
    DATASET_UPDATED = "dataset-updated"
    TASK_FINISHED = "task-finished"
    DAG_RUN_STATE = "dag-run-state"
    TASK_STATE = "task-state"
    DEAD_LETTER = "dead-letter"


INCOMING = (Kind.DATASET_UPDATED, Kind.DAG_FILE_CHANGED, Kind.TASK_FINISHED)
"""The kinds that daemons consume, from other programs and from each other."""


class EventId(msgspec.Struct, frozen=True, order=True, gc=False):
    """The CloudEvents identity: records with the same source and id are the same event."""

    source: str
    id: str


PRODUCER = "tidegate"
"""The key of `extra` that has the `Producer` of a dataset event. It is reserved for Tidegate."""

PRODUCER_SOURCE = "tidegate"
"""The source of the events that Tidegate publishes."""

POSITION = "kafka:"
"""The beginning of the source of events that are identified by their position in Kafka."""

TYPE_PREFIX = "tidegate."
VERSION = "v1"


def type_of(kind: Kind) -> str:
    """The current CloudEvents type of a kind, such as `tidegate.dataset-updated.v1`."""
    return f"{TYPE_PREFIX}{kind}.{VERSION}"


DATA: Mapping[Kind, type[msgspec.Struct]] = {
    Kind.DAG_FILE_CHANGED: DagFileChanged,
    Kind.DATASET_UPDATED: DatasetUpdated,
    Kind.TASK_FINISHED: TaskFinished,
    Kind.DAG_RUN_STATE: DagRunStateChanged,
    Kind.TASK_STATE: TaskStateChanged,
}
"""The struct of each kind's data. Dead letters have none: they are unchanged records."""

encode = msgspec.json.Encoder().encode
