"""Events on the wire: every version ever published is still read, and what cannot be an event is refused with its reason."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.schemas.envelope import Envelope, decode, decode_state
from tidegate.schemas.error import RejectedError
from tidegate.schemas.event import (
    ADVICE,
    MAX_DEPTH,
    MAX_ID_LENGTH,
    MAX_RECORD_BYTES,
    DagFileChanged,
    DatasetUpdated,
    Kind,
    Rejection,
    TaskFinished,
    encode,
    type_of,
)

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.json"))
STATES = (Kind.DAG_RUN_STATE, Kind.TASK_STATE)
PUBLISHED = [kind for kind in Kind if kind is not Kind.DEAD_LETTER]

Headers = Sequence[tuple[str, bytes]]


def golden(path: Path) -> tuple[Kind, Headers, bytes, Mapping[str, Any]]:
    """The record of a golden file, and all of the file."""
    file = json.loads(path.read_text())
    headers = [(name, text.encode()) for name, text in file["headers"].items()]
    return Kind(path.name.split(".")[0]), headers, file["value"].encode(), file


def read(kind: Kind, headers: Headers, value: bytes) -> Any:
    return decode_state(kind, headers, value) if kind in STATES else decode(kind, headers, value)[1]


def headers_of(**attributes: str) -> Headers:
    return [(f"ce_{name}", text.encode()) for name, text in attributes.items()]


def rejection(value: bytes | None, headers: Headers = (), kind: Kind = Kind.DATASET_UPDATED) -> RejectedError:
    with pytest.raises(RejectedError) as caught:
        decode(kind, headers, value)
    return caught.value


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


def test_binary_attributes_may_be_partly_there() -> None:
    headers = headers_of(id="7")

    envelope, _ = decode(Kind.DATASET_UPDATED, headers, b'{"uri":"lake://a"}')

    assert envelope == Envelope(source=None, id="7", time=None)


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

    envelope, _ = decode(Kind.DATASET_UPDATED, headers, b'{"uri":"lake://a"}')

    assert str(envelope.time) == "2026-03-29 01:30:00+00:00"


def test_a_task_may_finish_with_nothing_but_its_outcome() -> None:
    submission = UUID(int=7)

    _, event = decode(Kind.TASK_FINISHED, [], b'{"submission_id":"%s","outcome":"lost"}' % str(submission).encode())

    assert event == TaskFinished(submission_id=submission, outcome="lost")


def structured(data: bytes) -> bytes:
    return b'{"specversion":"1.0","id":"7","source":"s","data_base64":"%s"}' % b64encode(data)


def test_data_may_come_in_base64() -> None:
    envelope, event = decode(Kind.DATASET_UPDATED, [], structured(b'{"uri":"lake://a"}'))

    assert (envelope.id, event) == ("7", DatasetUpdated(uri="lake://a"))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"lake://a", Rejection.MALFORMED),
        (b'{"uri":7}', Rejection.INVALID),
        (b'{"uri":"lake://a","extra":{"x":"\\u0000"}}', Rejection.INVALID),
        (b'{"uri":"lake://a","extra":{"x":%s}}' % (b"[" * 80 + b"]" * 80), Rejection.MALFORMED),
    ],
)
def test_data_in_base64_is_held_to_the_same(data: bytes, reason: Rejection) -> None:
    assert rejection(structured(data)).reason == reason


def test_every_reason_comes_with_what_to_do() -> None:
    assert ADVICE.keys() == set(Rejection)


REFUSED = [
    (None, Rejection.MALFORMED, "no value"),
    (b"", Rejection.MALFORMED, "no value"),
    (b"{", Rejection.MALFORMED, "not JSON"),
    (b"lake://flights", Rejection.MALFORMED, "not JSON"),
    (b'{"uri":"lake://a"} {}', Rejection.MALFORMED, "trailing characters"),
    (b'{"uri":"lake://a","extra":{"x":"\xff"}}', Rejection.MALFORMED, "not JSON"),
    (b'{"uri":"lake://a","extra":{"x":"\\ud800"}}', Rejection.MALFORMED, "not JSON"),
    (b'{"uri":"lake://a","extra":{"x":NaN}}', Rejection.MALFORMED, "not JSON"),
    (b"{}", Rejection.INVALID, "missing required field `uri`"),
    (b"[]", Rejection.INVALID, "Expected `object`, got `array`"),
    (b'[{"uri":"lake://a"}]', Rejection.INVALID, "Expected `object`, got `array`"),
    (b'{"uri":7}', Rejection.INVALID, "Expected `str`, got `int` - at `$.uri`"),
    (b'{"uri":""}', Rejection.INVALID, "length >= 1 - at `$.uri`"),
    (b'{"uri":"a b"}', Rejection.INVALID, "$.uri"),
    (b'{"uri":"lake://a","extra":[1]}', Rejection.INVALID, "$.extra"),
    (b'{"uri":"lake://a","extra":{"x":"\\u0000"}}', Rejection.INVALID, "NUL"),
    (b'{"uri":"lake://a","extra":{"\\\\\\u0000":1}}', Rejection.INVALID, "NUL"),
    (b'{"uri":"lake://a","extra":{"x":1e999}}', Rejection.INVALID, "out of range"),
    (b'{"specversion":"1.0","id":"1","source":"s"}', Rejection.INVALID, "without data"),
    (b'{"specversion":"1.0","data_base64":"?"}', Rejection.INVALID, "base64"),
    (b'{"specversion":"1.0","id":"","source":"s","data":{"uri":"a"}}', Rejection.INVALID, "CloudEvents id needs"),
    (b'{"specversion":"2.0","data":{"uri":"a"}}', Rejection.UNSUPPORTED_VERSION, "CloudEvents 2.0 is not understood"),
    (b'{"specversion":"1.0","type":"x.y","data":{"uri":"a"}}', Rejection.UNKNOWN_TYPE, "x.y does not belong here"),
    (b'{"specversion":"1.0","time":"2026-01-01T00:00:00","data":{"uri":"a"}}', Rejection.INVALID, "$.time"),
]


@pytest.mark.parametrize(("value", "reason", "says"), REFUSED)
def test_what_is_no_event_is_refused_and_says_why(value: bytes | None, reason: Rejection, says: str) -> None:
    error = rejection(value)

    assert error.reason == reason
    assert says in str(error)


BAD_HEADERS = [
    ({"type": "tidegate.dataset-updated.v2"}, Rejection.UNSUPPORTED_VERSION, "tidegate.dataset-updated.v1 is"),
    ({"type": "tidegate.task-finished.v1"}, Rejection.UNKNOWN_TYPE, "this topic carries tidegate.dataset-updated.v1"),
    ({"type": ""}, Rejection.UNKNOWN_TYPE, "does not belong here"),
    ({"specversion": "0.3"}, Rejection.UNSUPPORTED_VERSION, "CloudEvents 0.3"),
    ({"id": ""}, Rejection.INVALID, "CloudEvents id needs 1 to 512 characters"),
    ({"source": "s" * (MAX_ID_LENGTH + 1)}, Rejection.INVALID, "CloudEvents source needs"),
    ({"id": "a\0b"}, Rejection.INVALID, "none of them NUL"),
    ({"time": "yesterday"}, Rejection.INVALID, "datetime"),
    ({"time": "2026-01-01T00:00:00"}, Rejection.INVALID, "timezone"),
    ({"time": "0001-01-01T00:00:00+14:00"}, Rejection.INVALID, "out of range"),
]


@pytest.mark.parametrize(("attributes", "reason", "says"), BAD_HEADERS)
def test_a_wrong_envelope_is_refused_and_says_why(attributes: dict[str, str], reason: Rejection, says: str) -> None:
    error = rejection(b'{"uri":"lake://a"}', headers_of(**attributes))

    assert error.reason == reason
    assert says in str(error)


def test_an_attribute_that_is_no_text_is_refused() -> None:
    error = rejection(b'{"uri":"lake://a"}', [("ce_id", b"\xff")])

    assert error.reason == Rejection.MALFORMED


def test_backslashes_before_u0000_are_read_as_json_reads_them() -> None:
    value = rb'{"uri":"lake://a","extra":{"x":"C:\\u0000"}}'

    _, event = decode(Kind.DATASET_UPDATED, [], value)

    assert event == DatasetUpdated(uri="lake://a", extra={"x": r"C:\u0000"})


def test_a_record_may_have_one_mebibyte() -> None:
    frame = b'{"uri":"lake://a","extra":{"x":"%s"}}'
    largest = frame % (b"x" * (MAX_RECORD_BYTES - len(frame) + 2))

    decode(Kind.DATASET_UPDATED, [], largest)

    assert len(largest) == MAX_RECORD_BYTES


def test_a_record_above_one_mebibyte_is_refused_with_its_size() -> None:
    error = rejection(b'{"uri":"lake://a","extra":{"x":"%s"}}' % (b"x" * 2 * MAX_RECORD_BYTES))

    assert error.reason == Rejection.TOO_LARGE
    assert str(error) == "2097187 bytes; at most 1048576 are accepted"


def test_nesting_is_accepted_up_to_the_limit() -> None:
    value = b'{"uri":"lake://a","extra":{"x":%s}}' % (b"[" * (MAX_DEPTH - 2) + b"]" * (MAX_DEPTH - 2))

    _, event = decode(Kind.DATASET_UPDATED, [], value)

    assert isinstance(event, DatasetUpdated)


@pytest.mark.parametrize("levels", [MAX_DEPTH - 1, 100_000])
def test_deeper_nesting_is_refused(levels: int) -> None:
    error = rejection(b'{"uri":"lake://a","extra":{"x":%s}}' % (b"[" * levels + b"]" * levels))

    assert error.reason == Rejection.MALFORMED
    assert str(error) == "nested deeper than 64 levels"


def test_many_brackets_side_by_side_are_no_depth() -> None:
    value = b'{"uri":"lake://a","extra":{"x":[%s]}}' % b",".join([b"[]"] * 1000)

    _, event = decode(Kind.DATASET_UPDATED, [], value)

    assert isinstance(event, DatasetUpdated)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode), st.sampled_from(PUBLISHED[:3]))
def test_any_bytes_are_an_event_or_refused(value: bytes, kind: Kind) -> None:
    with suppress(RejectedError):
        envelope, event = decode(kind, [], value)

        assert decode(kind, [], encode(event)) == (envelope, event)


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


@pytest.mark.parametrize(
    "field",
    ['"outcome":"done"', '"outcome":"failed","exit_code":4294967296', '"outcome":"failed","started_at":"2026-01-01T00:00:00"'],
)
def test_a_finish_that_cannot_be_recorded_is_refused(field: str) -> None:
    value = b'{"submission_id":"6a1c2f0e-7a4e-5d0b-9d3c-0d6f6a0c9f11",%s}' % field.encode()

    error = rejection(value, kind=Kind.TASK_FINISHED)

    assert error.reason == Rejection.INVALID
