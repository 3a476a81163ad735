"""Events on the wire: CloudEvents 1.0 around JSON data.

In: `dag-file-changed`, `dataset-updated`, `task-finished`. Out: `dag-run-state`, `task-state`.
A field may be added with a default; it is never renamed, retyped or removed. Unknown fields are ignored, so that old readers
understand new writers. A new major version is a new `type`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from tidegate.schemas.dag import Uri
from tidegate.schemas.error import RejectedError

MAX_RECORD_BYTES = 1 << 20
MAX_DEPTH = 64


class Rejection(StrEnum):
    """Classes of dead letters."""

    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    UNKNOWN_TYPE = "unknown_type"
    UNSUPPORTED_VERSION = "unsupported_version"
    INVALID = "invalid"
    UNKNOWN_ATTEMPT = "unknown_attempt"
    UNPROCESSABLE = "unprocessable"


class DagFileChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A file below the DAG folder is new, changed or gone. The event only names it; the content is read from the folder."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]


class DatasetUpdated(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset got new data. `extra` is any JSON object; the runs that consume the event can read it."""

    uri: Uri
    extra: dict[str, Any] = {}


class TaskFinished(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt ended. `submission_id` names the attempt; `reason` is for people."""

    submission_id: UUID
    outcome: Literal["succeeded", "failed", "killed", "lost"]
    reason: str = ""
    exit_code: int | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class DagRunStateChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A run moved. `seq` counts 1, 2, 3 … per run without a gap: drop what is not above the last one seen."""

    dag_id: str
    run_id: str
    seq: int
    state: str
    run_type: str
    run_after: datetime
    at: datetime
    reason: str = ""


class TaskStateChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A task of a run moved. `seq` counts per run over all its tasks, without a gap."""

    dag_id: str
    run_id: str
    task_id: str
    try_number: int
    seq: int
    state: str
    at: datetime
    reason: str = ""


Incoming = DagFileChanged | DatasetUpdated | TaskFinished
Outgoing = DagRunStateChanged | TaskStateChanged | DatasetUpdated


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
    """What a CloudEvents record says about its data. `id` is None where the producer gave none; `time` likewise."""

    source: str | None
    id: str | None
    time: datetime | None


TYPE_PREFIX = "tidegate."
VERSION = "v1"


def type_of(kind: Kind) -> str:
    """The CloudEvents type of today's events of a kind, `tidegate.dataset-updated.v1`."""
    return f"{TYPE_PREFIX}{kind}.{VERSION}"


_DECODERS: dict[Kind, msgspec.json.Decoder[Any]] = {
    Kind.DAG_FILE_CHANGED: msgspec.json.Decoder(DagFileChanged),
    Kind.DATASET_UPDATED: msgspec.json.Decoder(DatasetUpdated),
    Kind.TASK_FINISHED: msgspec.json.Decoder(TaskFinished),
}

encode = msgspec.json.Encoder().encode


class _Structured(msgspec.Struct, frozen=True, kw_only=True):
    """CloudEvents structured mode: the envelope in the body, the data inside."""

    specversion: str | None = None
    id: str | None = None
    source: str | None = None
    type: str | None = None
    time: datetime | None = None
    data: msgspec.Raw = msgspec.Raw(b"")


_STRUCTURED = msgspec.json.Decoder(_Structured)
_TIME = msgspec.json.Decoder(datetime)


def decode(kind: Kind, headers: Sequence[tuple[str, bytes]], value: bytes | None) -> tuple[Envelope, Incoming]:
    """Read one record of a topic that carries `kind`.

    Binary mode (envelope in `ce_*` headers), structured mode (one JSON object with `specversion`) and bare data are understood.
    Raises RejectedError: the record can never be read.
    """
    body = _bounded(value)
    attributes = {name: content for name, content in headers if name.startswith("ce_")} if headers else {}
    try:
        if attributes:
            envelope, data = _binary(kind, attributes), body
        elif b'"specversion"' in body:
            envelope, data = _structured(kind, body)
        else:
            envelope, data = Envelope(source=None, id=None, time=None), body
        return envelope, _DECODERS[kind].decode(data)
    except msgspec.ValidationError as error:
        raise RejectedError(Rejection.INVALID, f"not a valid {kind} event: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RejectedError(Rejection.MALFORMED, f"not JSON: {error}") from error


def _bounded(value: bytes | None) -> bytes:
    if not value:
        raise RejectedError(Rejection.MALFORMED, "the record has no value")
    if len(value) > MAX_RECORD_BYTES:
        raise RejectedError(Rejection.TOO_LARGE, f"{len(value)} bytes; at most {MAX_RECORD_BYTES} are accepted")
    if value.count(b"[") + value.count(b"{") > MAX_DEPTH and depth(value) > MAX_DEPTH:
        raise RejectedError(Rejection.MALFORMED, f"nested deeper than {MAX_DEPTH} levels")
    return value


def depth(value: bytes) -> int:
    """How deep arrays and objects are nested in a JSON text, brackets inside strings not counted."""
    deepest = level = 0
    quoted = escaped = False
    for byte in value:
        if quoted:
            quoted, escaped = escaped or byte != 0x22, not escaped and byte == 0x5C
        elif byte == 0x22:
            quoted = True
        elif byte in b"[{":
            level += 1
            deepest = max(deepest, level)
        elif byte in b"]}":
            level -= 1
    return deepest


def _binary(kind: Kind, attributes: Mapping[str, bytes]) -> Envelope:
    if (type_ := attributes.get("ce_type")) is not None:
        _check_type(kind, type_.decode())
    time = attributes.get("ce_time")
    return Envelope(
        source=_text(attributes.get("ce_source")),
        id=_text(attributes.get("ce_id")),
        time=None if time is None else _TIME.decode(b'"' + time + b'"'),
    )


def _structured(kind: Kind, body: bytes) -> tuple[Envelope, bytes]:
    event = _STRUCTURED.decode(body)
    if event.specversion is None:
        return Envelope(source=None, id=None, time=None), body
    if event.type is not None:
        _check_type(kind, event.type)
    return Envelope(source=event.source, id=event.id, time=event.time), bytes(event.data)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _check_type(kind: Kind, type_: str) -> None:
    if type_ == type_of(kind):
        return
    stem, _, version = type_.rpartition(".")
    if stem == f"{TYPE_PREFIX}{kind}":
        raise RejectedError(Rejection.UNSUPPORTED_VERSION, f"{type_} is not understood here; {type_of(kind)} is")
    raise RejectedError(Rejection.UNKNOWN_TYPE, f"{type_} does not belong here; this topic carries {type_of(kind)}")
