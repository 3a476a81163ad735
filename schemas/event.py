"""Events on the wire: CloudEvents 1.0 around JSON data.

In: `dag-file-changed`, `dataset-updated`, `task-finished`. Out: `dag-run-state`, `task-state`.
A field may be added with a default; it is never renamed, retyped or removed. Unknown fields are ignored, so that old readers
understand new writers. A new major version is a new `type`.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tidegate.schemas import openlineage
from tidegate.schemas.dag import Uri
from tidegate.schemas.depth import depth
from tidegate.schemas.error import RejectedError
from tidegate.schemas.notice import MissedDeadline
from tidegate.schemas.openlineage import LineageEvent
from tidegate.schemas.state import RunState, RunType, TaskState

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
Outgoing = StateChanged | DatasetUpdated


class Kind(StrEnum):
    """What a topic carries; also the middle part of its events' CloudEvents type."""

    DAG_FILE_CHANGED = "dag-file-changed"
    DATASET_UPDATED = "dataset-updated"
    TASK_FINISHED = "task-finished"
    DAG_RUN_STATE = "dag-run-state"
    TASK_STATE = "task-state"
    DEAD_LETTER = "dead-letter"


class EventId(msgspec.Struct, frozen=True, order=True):
    """CloudEvents identity: the same (source, id) is the same event, however often it arrives."""

    source: str
    id: str


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What a CloudEvents record says about its data, each None where the producer did not say. `time` is in UTC."""

    source: str | None
    id: str | None
    time: datetime | None


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

_DECODERS: dict[Kind, msgspec.json.Decoder[Any]] = {kind: msgspec.json.Decoder(shape) for kind, shape in DATA.items()}

encode = msgspec.json.Encoder().encode


class _Structured(msgspec.Struct, frozen=True, kw_only=True):
    """CloudEvents structured mode: the envelope in the body, the data inside."""

    specversion: str | None = None
    id: str | None = None
    source: str | None = None
    type: str | None = None
    time: Moment | None = None
    data: msgspec.Raw = msgspec.Raw(b"")


_STRUCTURED = msgspec.json.Decoder(_Structured)
_TIME = msgspec.json.Decoder(Moment)
_TYPES = {kind: type_of(kind) for kind in Kind}
_ATTRIBUTES = frozenset({"ce_specversion", "ce_type", "ce_source", "ce_id", "ce_time"})
_BARE = Envelope(source=None, id=None, time=None)


def decode(kind: Kind, headers: Sequence[tuple[str, bytes]], value: bytes | None) -> tuple[Envelope, Incoming]:
    """Read one record of a topic that carries `kind`, one of the incoming ones.

    Binary mode (envelope in `ce_*` headers), structured mode (one JSON object with `specversion`) and bare data are understood;
    of dataset updates also OpenLineage's events, as LineageEvent. Raises RejectedError: the record can never be read.
    """
    return _decode(kind, headers, value)


def decode_state(kind: Kind, headers: Sequence[tuple[str, bytes]], value: bytes | None) -> StateChanged:
    """Read one record of a state topic. Raises RejectedError."""
    event: StateChanged = _decode(kind, headers, value)[1]
    return event


def _decode(kind: Kind, headers: Sequence[tuple[str, bytes]], value: bytes | None) -> tuple[Envelope, Any]:
    body = _bounded(value)
    try:
        if attributes := {name: content.decode() for name, content in headers if name in _ATTRIBUTES}:
            envelope, data = _binary(kind, attributes), body
        elif b'"specversion"' in body:
            envelope, data = _structured(kind, body)
        else:
            envelope, data = _BARE, body
        try:
            return envelope, _DECODERS[kind].decode(data)
        except msgspec.ValidationError:
            # Only what is no event of ours is looked at twice, so that ours cost nothing more.
            if kind is not Kind.DATASET_UPDATED or (lineage := _lineage(data)) is None:
                raise
            return envelope, lineage
    except msgspec.ValidationError as error:
        raise RejectedError(Rejection.INVALID, f"not a valid {kind} event: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RejectedError(Rejection.MALFORMED, f"not JSON: {error}") from error


def _lineage(data: bytes) -> LineageEvent | None:
    try:
        return openlineage.read(data)
    except msgspec.ValidationError as error:
        raise RejectedError(Rejection.INVALID, f"not a valid OpenLineage run event: {error}") from error


def _bounded(value: bytes | None) -> bytes:
    if not value:
        raise RejectedError(Rejection.MALFORMED, "the record has no value")
    if len(value) > MAX_RECORD_BYTES:
        raise RejectedError(Rejection.TOO_LARGE, f"{len(value)} bytes; at most {MAX_RECORD_BYTES} are accepted")
    if value.count(b"[") + value.count(b"{") > MAX_DEPTH and depth(value) > MAX_DEPTH:
        raise RejectedError(Rejection.MALFORMED, f"nested deeper than {MAX_DEPTH} levels")
    if b"u0000" in value and b"\\u0000" in value.replace(rb"\\", b""):
        raise RejectedError(Rejection.INVALID, "a NUL character (\\u0000), which cannot be stored")
    return value


def _binary(kind: Kind, attributes: Mapping[str, str]) -> Envelope:
    said = attributes.get
    time = said("ce_time")
    moment = None if time is None else _TIME.decode(f'"{time}"')
    return _envelope(kind, said("ce_specversion"), said("ce_type"), said("ce_source"), said("ce_id"), moment)


def _structured(kind: Kind, body: bytes) -> tuple[Envelope, bytes]:
    event = _STRUCTURED.decode(body)
    if event.specversion is None:
        return _BARE, body
    envelope = _envelope(kind, event.specversion, event.type, event.source, event.id, event.time)
    if not event.data:
        raise RejectedError(Rejection.INVALID, "a CloudEvents event without data")
    return envelope, bytes(event.data)


def _envelope(
    kind: Kind, spec: str | None, type_: str | None, source: str | None, id_: str | None, time: datetime | None
) -> Envelope:
    if spec is not None and not spec.startswith("1."):
        raise RejectedError(Rejection.UNSUPPORTED_VERSION, f"CloudEvents {spec[:20]} is not understood here; 1.0 is")
    if type_ is not None and type_ != _TYPES[kind]:
        raise _unknown(kind, type_)
    return Envelope(source=_identity("source", source), id=_identity("id", id_), time=_in_utc(time))


def _identity(name: str, text: str | None) -> str | None:
    """An empty one would make all events of a producer one event."""
    if text is not None and not (0 < len(text) <= MAX_ID_LENGTH and "\0" not in text):
        raise RejectedError(Rejection.INVALID, f"the CloudEvents {name} needs 1 to {MAX_ID_LENGTH} characters, none of them NUL")
    return text


def _in_utc(time: datetime | None) -> datetime | None:
    try:
        return time and time.astimezone(UTC)
    except OverflowError as error:
        raise RejectedError(Rejection.INVALID, "the CloudEvents time is out of range") from error


def _unknown(kind: Kind, type_: str) -> RejectedError:
    known = _TYPES[kind]
    if type_.rpartition(".")[0] == known.rpartition(".")[0]:
        return RejectedError(Rejection.UNSUPPORTED_VERSION, f"{type_[:200]} is not understood here; {known} is")
    return RejectedError(Rejection.UNKNOWN_TYPE, f"{type_[:200]} does not belong here; this topic carries {known}")
