"""Decoding of records: CloudEvents 1.0 with JSON data, bare JSON data, and OpenLineage run events."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from tidegate.schemas.conditions.condition import decoding_problem
from tidegate.schemas.dag import ARCHIVE
from tidegate.schemas.error import RejectedError
from tidegate.schemas.text import cut
from tidegate.schemas.time_range import Moment, in_range
from tidegate.schemas.wire import openlineage
from tidegate.schemas.wire.event import (
    DATA,
    MAX_DEPTH,
    MAX_ID_BYTES,
    MAX_ID_LENGTH,
    MAX_RECORD_BYTES,
    POSITION,
    DagFileChanged,
    DatasetUpdated,
    Incoming,
    Kind,
    Rejection,
    StateChanged,
    TaskFinished,
    type_of,
)
from tidegate.schemas.wire.json_text import has_nul, is_deeper
from tidegate.schemas.wire.openlineage import LineageEvent


class Envelope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The CloudEvents attributes of a record; None for those the producer left out. `time` is in UTC.

    `ignored`: the first fields of a dataset event that this version does not know.
    """

    source: str | None
    id: str | None
    time: datetime | None
    ignored: tuple[str, ...] = ()


_DECODERS: dict[Kind, msgspec.json.Decoder[Any]] = {kind: msgspec.json.Decoder(shape) for kind, shape in DATA.items()}


class _Structured(msgspec.Struct, frozen=True, kw_only=True):
    """CloudEvents structured mode: attributes and data in the body."""

    specversion: str | None = None
    id: str | None = None
    source: str | None = None
    type: str | None = None
    time: Moment | None = None
    data: msgspec.Raw = msgspec.Raw(b"")
    data_base64: bytes = b""


MAX_NAMES, MAX_NAME = 5, 100
"""Of the fields that are ignored in a record, and of their characters."""

_NAMES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_FIELDS = frozenset(DatasetUpdated.__struct_fields__)
_BESIDE = frozenset({"id", "source", "time", "type", "specversion", "subject", "datacontenttype", "dataschema"})
_STRUCTURED = msgspec.json.Decoder(_Structured)
_TIME = msgspec.json.Decoder(Moment)
_TYPES = {kind: type_of(kind) for kind in Kind}
_ATTRIBUTES = frozenset({"ce_specversion", "ce_type", "ce_source", "ce_id", "ce_time"})
_BARE = Envelope(source=None, id=None, time=None)
_MAY_NAME_ATTRIBUTES = re.compile(rb'"(?:id|source|time|type)"\s*:|\\u00')
"""In bare data, maybe deeper than its top level. A name may be written with escapes."""


def decode(kind: Kind, headers: Sequence[tuple[str, bytes]], value: bytes | None) -> tuple[Envelope, Incoming]:
    """Decode a record of the topic of `kind`, an incoming one.

    Accepts binary mode (attributes in `ce_*` headers), structured mode (a JSON object with `specversion`) and bare data, which
    may have the attributes id, source, time and type beside its fields; for dataset updates also OpenLineage run events, as
    LineageEvent. Raises RejectedError for a record that can never be decoded.
    """
    return _decode(kind, headers, value)


def decode_state(kind: Kind, headers: Sequence[tuple[str, bytes]], value: bytes | None) -> StateChanged:
    """Decode a record of a state topic. Raises RejectedError."""
    event: StateChanged = _decode(kind, headers, value)[1]
    return event


def _decode(kind: Kind, headers: Sequence[tuple[str, bytes]], value: bytes | None) -> tuple[Envelope, Any]:
    body = check_body(value)
    try:
        if attributes := _attributes(headers):
            envelope, data = _binary(kind, attributes), body
        elif b'"specversion"' in body:
            envelope, data = _structured(kind, body)
        else:
            envelope, data = _bare(kind, body), body
        try:
            return _noting(kind, envelope, data, is_bare=data is body and not attributes), _event(kind, data)
        except msgspec.ValidationError:
            # OpenLineage is tried only after a failure, so that it costs valid events nothing.
            if kind is not Kind.DATASET_UPDATED or (lineage := _lineage(data)) is None:
                raise
            return envelope, lineage
    except msgspec.ValidationError as error:
        raise RejectedError(Rejection.INVALID, f"not a valid {kind} event: {decoding_problem(error)}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RejectedError(Rejection.MALFORMED, f"not JSON: {error}") from error


def _noting(kind: Kind, envelope: Envelope, data: bytes, *, is_bare: bool) -> Envelope:
    """The envelope with the fields that are ignored. Of one in bare data, its attributes are not."""
    if kind is not Kind.DATASET_UPDATED:
        return envelope
    unknown = _NAMES.decode(data).keys() - _FIELDS - (_BESIDE if is_bare else frozenset())
    if not unknown:
        return envelope
    return msgspec.structs.replace(envelope, ignored=tuple(cut(name, MAX_NAME) for name in sorted(unknown)[:MAX_NAMES]))


def _event(kind: Kind, data: bytes) -> Any:
    event = _DECODERS[kind].decode(data)
    if check := _CHECKS.get(kind):
        check(event)
    return event


def _check_times(end: TaskFinished) -> None:
    for name, at in (("started_at", end.started_at), ("finished_at", end.finished_at)):
        if at is not None:
            checked_time(name, at)


def _check_path(change: DagFileChanged) -> None:
    """A path that no scan of the DAG folder finds would stay a broken DAG file for ever."""
    path = change.path
    if not path.endswith((".py", ARCHIVE)) or any(part in ("", ".", "..") for part in path.split("/")):
        problem = f"{path[:100]!r} is not the path of a DAG file"
        raise RejectedError(Rejection.INVALID, f"{problem}; write it relative to the DAG folder, like team/daily.py")


_CHECKS: Mapping[Kind, Callable[[Any], None]] = {Kind.TASK_FINISHED: _check_times, Kind.DAG_FILE_CHANGED: _check_path}
"""What a type cannot say about the data of a kind: raises RejectedError."""


def _lineage(data: bytes) -> LineageEvent | None:
    try:
        return openlineage.read(data)
    except msgspec.ValidationError as error:
        raise RejectedError(Rejection.INVALID, f"not a valid OpenLineage run event: {error}") from error


def check_body(value: bytes | None) -> bytes:
    """Raises RejectedError for a body that is empty, too large or too deep, or that contains NUL."""
    if not value:
        raise RejectedError(Rejection.MALFORMED, "the record has no value")
    if len(value) > MAX_RECORD_BYTES:
        raise RejectedError(Rejection.TOO_LARGE, f"{len(value)} bytes; at most {MAX_RECORD_BYTES} are accepted")
    if is_deeper(value, MAX_DEPTH):
        raise RejectedError(Rejection.MALFORMED, f"nested deeper than {MAX_DEPTH} levels")
    if has_nul(value):
        raise RejectedError(Rejection.INVALID, "a NUL character (\\u0000), which cannot be stored")
    return value


def _attributes(headers: Sequence[tuple[str, bytes]]) -> dict[str, str]:
    try:
        return {name: content.decode() for name, content in headers if name in _ATTRIBUTES}
    except UnicodeDecodeError as error:
        header = next(name for name, content in headers if name in _ATTRIBUTES and content == error.object)
        raise RejectedError(Rejection.MALFORMED, f"the header {header} is not text in UTF-8") from error


def _binary(kind: Kind, attributes: Mapping[str, str]) -> Envelope:
    attribute = attributes.get
    time = attribute("ce_time")
    moment = None if time is None else _time(time)
    spec, type_ = attribute("ce_specversion"), attribute("ce_type")
    return _envelope(kind, spec, type_, attribute("ce_source"), attribute("ce_id"), moment)


def _time(text: str) -> datetime:
    try:
        return _TIME.decode(f'"{text}"')
    except msgspec.DecodeError as error:
        problem = f"the header ce_time is {text[:100]!r}, but must be a time like 2026-11-21T12:00:00Z"
        raise RejectedError(Rejection.INVALID, problem) from error


def _structured(kind: Kind, body: bytes) -> tuple[Envelope, bytes]:
    event = _STRUCTURED.decode(body)
    if event.specversion is None:
        return _bare(kind, body), body
    envelope = _envelope(kind, event.specversion, event.type, event.source, event.id, event.time)
    if event.data:
        return envelope, bytes(event.data)
    if not event.data_base64:
        raise RejectedError(Rejection.INVALID, "a CloudEvents event without data")
    return envelope, check_body(event.data_base64)


def _bare(kind: Kind, body: bytes) -> Envelope:
    """The attributes of bare data that stand beside its fields: its producer relies on its id, wherever it writes it."""
    if _MAY_NAME_ATTRIBUTES.search(body) is None:
        return _BARE
    beside = _STRUCTURED.decode(body)
    return _envelope(kind, None, beside.type, beside.source, beside.id, beside.time)


def _envelope(
    kind: Kind, spec: str | None, type_: str | None, source: str | None, id_: str | None, time: datetime | None
) -> Envelope:
    if spec is not None and not spec.startswith("1."):
        raise RejectedError(Rejection.UNSUPPORTED_VERSION, f"CloudEvents {spec[:20]} is not supported; use 1.0")
    if type_ is not None and type_ != _TYPES[kind]:
        raise _unknown(kind, type_)
    _check_pair(source, id_)
    return Envelope(source=_identity("source", source), id=_identity("id", id_), time=time and _in_utc(time))


def _check_pair(source: str | None, id_: str | None) -> None:
    """Producers choose ids for themselves: without a source, events of two of them with the same id would be one event."""
    if id_ is not None and source is None:
        problem = f"the CloudEvents id {id_[:100]!r} has no source, and an id is unique within its source only"
        raise RejectedError(Rejection.INVALID, f"{problem}; send both, or neither")
    if source is not None and source.startswith(POSITION):
        problem = f"sources that begin with {POSITION!r} are reserved for events without an identity"
        raise RejectedError(Rejection.INVALID, f"the CloudEvents source {source[:100]!r}: {problem}")


def _identity(name: str, text: str | None) -> str | None:
    """An empty id is refused: all events of the producer would be the same event."""
    if text is not None and not (0 < len(text) <= MAX_ID_LENGTH and "\0" not in text):
        raise RejectedError(Rejection.INVALID, f"the CloudEvents {name} needs 1 to {MAX_ID_LENGTH} characters, none of them NUL")
    if text is not None and (size := len(text.encode())) > MAX_ID_BYTES:
        problem = f"the CloudEvents {name} has {size} bytes in UTF-8; at most {MAX_ID_BYTES} are possible"
        raise RejectedError(Rejection.INVALID, problem)
    return text


def _in_utc(time: datetime) -> datetime:
    return checked_time("the CloudEvents time", time).astimezone(UTC)


def checked_time(what: str, at: datetime) -> datetime:
    """The aware time. Raises RejectedError for one outside the range of times."""
    try:
        return in_range(what, at)
    except ValueError as error:
        raise RejectedError(Rejection.INVALID, str(error)) from error


def _unknown(kind: Kind, type_: str) -> RejectedError:
    known = _TYPES[kind]
    if type_.rpartition(".")[0] == known.rpartition(".")[0]:
        return RejectedError(Rejection.UNSUPPORTED_VERSION, f"{type_[:200]} is not supported; this version accepts {known}")
    return RejectedError(Rejection.UNKNOWN_TYPE, f"{type_[:200]} is not an event of this topic, which carries {known}")
