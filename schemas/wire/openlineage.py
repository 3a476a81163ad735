"""OpenLineage run events, as Spark's listener sends them: the outputs of a complete run are dataset updates.

Only the fields in use are decoded. A dataset's URI is its namespace and name: `s3://lake` and `flights/2013` make
`s3://lake/flights/2013`; a namespace without a colon is the scheme: `file` and `/data/flights` make `file:///data/flights`.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tidegate.schemas.time_range import Moment, in_range

SOURCE = "openlineage"
"""The source of all events derived from OpenLineage."""

FAILED = "openlineage/failed"
"""The source under which failed runs are recorded."""

MAX_OUTPUTS = 1000
"""The most datasets that one event of a job may have written: each is a dataset event of its own."""

LONGEST_VERSION = 512
PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))

Text = Annotated[str, Meta(min_length=1, max_length=2048)]
Whole = Annotated[int, Meta(ge=0)]


class EventType(StrEnum):
    """The event types of OpenLineage."""

    START = "START"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    ABORT = "ABORT"
    FAIL = "FAIL"
    OTHER = "OTHER"


class Update(msgspec.Struct, frozen=True):
    """A dataset that a run wrote. `id` depends on the run, the URI and the dataset's version."""

    uri: str
    id: str
    at: datetime
    extra: dict[str, Any]


class LineageEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A record. `what` is its type; `updates` are those of a COMPLETE event; `failed` is true for FAIL and ABORT.

    Spark reports a failed write as FAIL and then as COMPLETE: a run that failed updates nothing. `refused` are URIs whose updates
    this installation does not accept.
    """

    what: str
    run_id: str = ""
    failed: bool = False
    updates: tuple[Update, ...] = ()
    refused: tuple[str, ...] = ()


class _Symlink(msgspec.Struct):
    namespace: Text
    name: Text


class _Symlinks(msgspec.Struct):
    identifiers: tuple[_Symlink, ...] = ()


class _Version(msgspec.Struct, rename="camel"):
    dataset_version: Annotated[str, Meta(max_length=LONGEST_VERSION)] | int


class _Lifecycle(msgspec.Struct, rename="camel"):
    lifecycle_state_change: str


class _Facets(msgspec.Struct, rename="camel"):
    version: _Version | None = None
    lifecycle_state_change: _Lifecycle | None = None
    symlinks: _Symlinks | None = None


class _Statistics(msgspec.Struct, rename="camel"):
    row_count: Whole | None = None
    size: Whole | None = None
    file_count: Whole | None = None


class _OutputFacets(msgspec.Struct, rename="camel"):
    output_statistics: _Statistics | None = None


class _Output(msgspec.Struct, rename="camel"):
    namespace: Text
    name: Text
    facets: _Facets | None = None
    output_facets: _OutputFacets | None = None


class _NominalTime(msgspec.Struct, rename="camel"):
    nominal_start_time: str
    nominal_end_time: str | None = None


class _RunFacets(msgspec.Struct, rename="camel"):
    nominal_time: _NominalTime | None = None


class _Run(msgspec.Struct, rename="camel"):
    run_id: Annotated[str, Meta(min_length=1, max_length=256)]
    facets: _RunFacets | None = None


class _Job(msgspec.Struct):
    namespace: Text
    name: Text


class _RunEvent(msgspec.Struct, rename="camel"):
    event_type: EventType
    event_time: Moment
    run: _Run
    job: _Job
    outputs: Annotated[tuple[_Output, ...], Meta(max_length=MAX_OUTPUTS)] | None = None


class _Outline(msgspec.Struct, rename={"schema_url": "schemaURL", "event_type": "eventType"}):
    """The fields that identify an OpenLineage event."""

    schema_url: str = ""
    event_type: str | None = None
    run: msgspec.Raw | UnsetType = UNSET


_OUTLINE = msgspec.json.Decoder(_Outline)
_RUN_EVENT = msgspec.json.Decoder(_RunEvent)


def read(body: bytes) -> LineageEvent | None:
    """The event, or None for other JSON. Raises ValidationError for an invalid run event."""
    try:
        outline = _OUTLINE.decode(body)
    except msgspec.ValidationError:
        return None
    if outline.event_type is not None and outline.run is not UNSET:
        return _of_run(_RUN_EVENT.decode(body))
    if "openlineage" in outline.schema_url.lower():  # a dataset or job event, which announces no new data
        return LineageEvent(what=outline.schema_url.rpartition("/")[2][:40] or SOURCE)
    return None


def uri_of(namespace: str, name: str) -> str:
    """The URI of a dataset. Characters that a URI cannot have, such as spaces, are percent-encoded as UTF-8."""
    scheme = namespace.removesuffix("://")
    whole = f"{namespace.rstrip('/')}/{name.lstrip('/')}" if ":" in scheme else f"{scheme}://{name}"
    return quote(whole, safe=PRINTABLE)


def _of_run(event: _RunEvent) -> LineageEvent:
    kind, run_id = event.event_type, event.run.run_id
    updates: tuple[Update, ...] = ()
    if kind is EventType.COMPLETE:
        _check_time(event.event_time)
        outputs = enumerate(event.outputs or ())
        updates = tuple(_update(event, index, output) for index, output in outputs if not _is_dropped(output))
    failed = kind in (EventType.FAIL, EventType.ABORT)
    return LineageEvent(what=kind, run_id=run_id, failed=failed, updates=updates)


def _check_time(time: datetime) -> None:
    try:
        in_range("the time", time)
    except ValueError as error:
        raise msgspec.ValidationError(f"{error} - at `$.eventTime`") from error


def _update(event: _RunEvent, index: int, output: _Output) -> Update:
    uri = uri_of(output.namespace, output.name)
    if len(uri) > 2048:
        raise msgspec.ValidationError(
            f"the URI of a dataset has at most 2048 characters, this one {len(uri)} - at `$.outputs[{index}]`"
        )
    version = output.facets and output.facets.version
    version_text = str(version.dataset_version) if version else ""
    id_ = _identity(event.run.run_id, uri, version_text)
    return Update(uri, id_, event.event_time, _extra(event, output, version_text))


def _is_dropped(output: _Output) -> bool:
    """Whether the output dropped its dataset, which is no update."""
    change = output.facets.lifecycle_state_change if output.facets else None
    return change is not None and change.lifecycle_state_change == "DROP"


def _identity(run_id: str, uri: str, version: str) -> str:
    return str(uuid5(NAMESPACE_URL, msgspec.json.encode((SOURCE, run_id, uri, version)).decode()))


def _extra(event: _RunEvent, output: _Output, version: str) -> dict[str, Any]:
    """The known facts of the write, without absent ones."""
    facets, run = output.facets or _Facets(), event.run.facets or _RunFacets()
    statistics = (output.output_facets or _OutputFacets()).output_statistics or _Statistics()
    change, nominal, links = facets.lifecycle_state_change, run.nominal_time, facets.symlinks
    known = {
        "run_id": event.run.run_id,
        "job": f"{event.job.namespace}/{event.job.name}",
        "row_count": statistics.row_count,
        "size": statistics.size,
        "file_count": statistics.file_count,
        "dataset_version": version or None,
        "lifecycle_state_change": change and change.lifecycle_state_change,
        "nominal_start_time": nominal and nominal.nominal_start_time,
        "nominal_end_time": nominal and nominal.nominal_end_time,
        "symlinks": [uri_of(link.namespace, link.name) for link in links.identifiers] if links else None,
    }
    return {name: value for name, value in known.items() if value is not None}
