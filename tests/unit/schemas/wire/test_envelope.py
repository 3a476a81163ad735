"""Decoding of every published version of events."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.local_zone import local_zone
from tests.unit.schemas.wire.envelopes import PUBLISHED, Headers, headers_of, rejection, structured
from tidegate.schemas.wire.envelope import Envelope, decode, decode_state
from tidegate.schemas.wire.event import DagFileChanged, DatasetUpdated, Kind, Rejection, TaskFinished, encode, type_of

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.json"))
EXTRA = {"id": "1", "source": 7, "type": []}
MORNING = datetime(2026, 3, 28, 6, tzinfo=UTC)
STATES = (Kind.DAG_RUN_STATE, Kind.TASK_STATE)


def golden(path: Path) -> tuple[Kind, Headers, bytes, Mapping[str, Any]]:
    """The record of a golden file, and all of the file."""
    file = json.loads(path.read_text())
    headers = [(name, text.encode()) for name, text in file["headers"].items()]
    return Kind(path.name.split(".")[0]), headers, file["value"].encode(), file


def read(kind: Kind, headers: Headers, value: bytes) -> Any:
    return decode_state(kind, headers, value) if kind in STATES else decode(kind, headers, value)[1]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_published_version_is_read_as_on_its_first_day(path: Path) -> None:
    kind, headers, value, file = golden(path)

    event = read(kind, headers, value)

    assert json.loads(encode(event)) == file["data"]


@pytest.mark.parametrize("path", [path for path in GOLDEN if "state" not in path.stem], ids=lambda path: path.stem)
def test_the_envelope_is_read_in_every_mode(path: Path) -> None:
    kind, headers, value, file = golden(path)

    envelope, _ = decode(kind, headers, value)

    assert envelope == msgspec.convert(file["envelope"], Envelope)


@pytest.mark.parametrize("path", [path for path in GOLDEN if ".binary" in path.name], ids=lambda path: path.stem)
def test_what_is_written_today_is_what_was_published(path: Path) -> None:
    kind, headers, value, _ = golden(path)

    written = encode(read(kind, headers, value))

    assert written == value


@pytest.mark.parametrize("kind", PUBLISHED)
def test_todays_version_of_every_kind_has_a_golden_file(kind: Kind) -> None:
    names = [path.name for path in GOLDEN]

    version = type_of(kind).removeprefix("tidegate.")

    assert f"{version}.binary.json" in names


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_fields_of_a_newer_writer_are_ignored(path: Path) -> None:
    kind, headers, value, file = golden(path)
    newer = json.loads(value)
    (newer["data"] if "specversion" in newer else newer)["added_later"] = {"any": [1]}

    event = read(kind, headers, json.dumps(newer).encode())

    assert json.loads(encode(event)) == file["data"]


def test_the_smallest_dataset_event_is_a_uri() -> None:
    value = b'{"uri": "lake://flights"}'

    envelope, event = decode(Kind.DATASET_UPDATED, [], value)

    assert (envelope, event) == (Envelope(source=None, id=None, time=None), DatasetUpdated(uri="lake://flights"))


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        pytest.param('"id":"1","source":"rev"', Envelope(source="rev", id="1", time=None), id="an identity"),
        pytest.param('"\\u0069d":"1","source":"rev"', Envelope(source="rev", id="1", time=None), id="with an escape in a name"),
        pytest.param('"source":"rev"', Envelope(source="rev", id=None, time=None), id="a source alone"),
        pytest.param('"time":"2026-03-28T07:00:00+01:00"', Envelope(source=None, id=None, time=MORNING), id="a time"),
        pytest.param(
            '"type":"tidegate.dataset-updated.v1"', Envelope(source=None, id=None, time=None), id="the type of the topic"
        ),
        pytest.param('"id":null,"subject":"x"', Envelope(source=None, id=None, time=None), id="nothing that counts"),
        pytest.param('"extra":{"id":"1","source":7,"type":[]}', Envelope(source=None, id=None, time=None), id="deeper"),
    ],
)
def test_attributes_beside_the_fields_of_bare_data_count(attributes: str, expected: Envelope) -> None:
    envelope, event = decode(Kind.DATASET_UPDATED, [], f'{{"uri":"lake://a",{attributes}}}'.encode())

    assert (envelope, event) == (expected, DatasetUpdated(uri="lake://a", extra=EXTRA if "extra" in attributes else {}))


@pytest.mark.parametrize(
    ("headers", "value", "ignored"),
    [
        pytest.param([], b'{"uri":"lake://a","extras":{"x":1},"day":"1"}', ("day", "extras"), id="bare"),
        pytest.param([], b'{"uri":"lake://a","id":"1","source":"s","type":null,"subject":"x"}', (), id="attributes"),
        pytest.param(headers_of(source="s"), b'{"uri":"lake://a","id":"1"}', ("id",), id="binary"),
        pytest.param([], b'{"specversion":"1.0","more":1,"data":{"uri":"lake://a","id":"1"}}', ("id",), id="structured"),
        pytest.param([], b'{"uri":"lake://a",%s}' % b",".join(b'"%d":0' % n for n in range(9)), tuple("01234"), id="many"),
        pytest.param([], b'{"uri":"lake://a","%s":0}' % (b"x" * 103), ("x" * 100 + "… (3 more characters)",), id="a long name"),
        pytest.param([], b'{"uri":"lake://a","extra":{"day":"1"}}', (), id="none"),
    ],
)
def test_fields_of_a_dataset_event_that_are_ignored_are_named(headers: Headers, value: bytes, ignored: tuple[str, ...]) -> None:
    envelope, event = decode(Kind.DATASET_UPDATED, headers, value)

    assert (envelope.ignored, isinstance(event, DatasetUpdated)) == (ignored, True)


def test_binary_attributes_may_be_partly_there() -> None:
    headers = headers_of(source="importer")

    envelope, _ = decode(Kind.DATASET_UPDATED, headers, b'{"uri":"lake://a"}')

    assert envelope == Envelope(source="importer", id=None, time=None)


def test_an_id_may_have_1024_bytes() -> None:
    envelope, _ = decode(Kind.DATASET_UPDATED, headers_of(id="é" * 512, source="s"), b'{"uri":"lake://a"}')

    assert envelope.id == "é" * 512


def test_headers_that_are_not_of_cloudevents_do_not_matter() -> None:
    headers = [("traceparent", b"\xff\xfe"), ("content-type", b"application/json")]

    envelope, _ = decode(Kind.DATASET_UPDATED, headers, b'{"uri":"lake://a"}')

    assert envelope.id is None


def test_data_that_speaks_of_specversion_is_not_taken_for_an_envelope() -> None:
    value = b'{"uri":"lake://a","extra":{"specversion":"1.0"}}'

    _, event = decode(Kind.DATASET_UPDATED, [], value)

    assert event == DatasetUpdated(uri="lake://a", extra={"specversion": "1.0"})


def test_times_arrive_in_utc() -> None:
    headers = headers_of(time="2026-03-29T03:30:00+02:00")

    with local_zone("Asia/Tokyo"):
        envelope, _ = decode(Kind.DATASET_UPDATED, headers, b'{"uri":"lake://a"}')

    assert str(envelope.time) == "2026-03-29 01:30:00+00:00"


def test_a_task_may_finish_with_nothing_but_its_outcome() -> None:
    submission = UUID(int=7)

    _, event = decode(Kind.TASK_FINISHED, [], b'{"submission_id":"%s","outcome":"lost"}' % str(submission).encode())

    assert event == TaskFinished(submission_id=submission, outcome="lost")


def test_data_may_come_in_base64() -> None:
    envelope, event = decode(Kind.DATASET_UPDATED, [], structured(b'{"uri":"lake://a"}'))

    assert (envelope.id, event) == ("7", DatasetUpdated(uri="lake://a"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_characters="\0", codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(exclude_characters="\0", codec="utf-8")), inner)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text(st.characters(exclude_characters="\0", codec="utf-8")), JSON, max_size=4))
def test_a_written_event_is_read_as_it_was(extra: dict[str, Any]) -> None:
    event = DatasetUpdated(uri="lake://a", extra=extra)

    _, back = decode(Kind.DATASET_UPDATED, [], encode(event))

    assert back == event


def test_a_state_event_is_read_by_its_kind() -> None:
    value = b'{"dag_id":"d","run_id":"r","task_id":"t","try_number":1,"seq":3,"state":"queued","at":"2026-01-01T00:00:00Z"}'

    event = decode_state(Kind.TASK_STATE, [], value)

    assert (event.seq, event.at) == (3, datetime(2026, 1, 1, tzinfo=UTC))


def test_a_path_is_needed_to_say_that_a_file_changed() -> None:
    error = rejection(b'{"path":""}', kind=Kind.DAG_FILE_CHANGED)

    assert error.reason == Rejection.INVALID
    assert decode(Kind.DAG_FILE_CHANGED, [], b'{"path":"a.py"}')[1] == DagFileChanged(path="a.py")
