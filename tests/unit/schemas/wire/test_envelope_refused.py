"""Invalid records and the reasons of their rejection."""

from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.schemas.wire.envelopes import OUT_OF_RANGE, PUBLISHED, headers_of, rejection, structured
from tidegate.schemas.conditions.condition import URI_RULE
from tidegate.schemas.error import RejectedError
from tidegate.schemas.wire.envelope import decode
from tidegate.schemas.wire.event import (
    ADVICE,
    MAX_DEPTH,
    MAX_ID_LENGTH,
    MAX_RECORD_BYTES,
    DagFileChanged,
    DatasetUpdated,
    Kind,
    Rejection,
    encode,
)

NUL = r"a NUL character (\u0000), which cannot be stored"


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


@pytest.mark.parametrize("path", ["a.txt", "/etc/a.py", "../a.py", "team/../a.py", "./a.py", "team//a.py", "team/"])
def test_a_path_that_cannot_be_a_dag_file_is_refused(path: str) -> None:
    error = rejection(encode(DagFileChanged(path=path)), kind=Kind.DAG_FILE_CHANGED)

    assert (error.reason, str(error)) == (
        Rejection.INVALID,
        f"{path!r} is not the path of a DAG file; write it relative to the DAG folder, like team/daily.py",
    )


@pytest.mark.parametrize("path", ["team/daily.py", "team.zip", "team.zip/daily.py"])
def test_dag_files_archives_and_what_is_in_them_are_accepted(path: str) -> None:
    value = encode(change := DagFileChanged(path=path))

    assert decode(Kind.DAG_FILE_CHANGED, (), value)[1] == change


def test_every_reason_comes_with_what_to_do() -> None:
    assert ADVICE.keys() == set(Rejection)


REFUSED = [
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
    (b'{"uri":"a b"}', Rejection.INVALID, f"not a valid dataset-updated event: {URI_RULE} - at `$.uri`"),
    (b'{"uri":"lake://a","extra":[1]}', Rejection.INVALID, "$.extra"),
    (b'{"uri":"lake://a","extra":{"x":1e999}}', Rejection.INVALID, "out of range"),
    (b'{"specversion":"1.0","data_base64":"?"}', Rejection.INVALID, "base64"),
    (b'{"specversion":"1.0","id":"","source":"s","data":{"uri":"a"}}', Rejection.INVALID, "CloudEvents id needs"),
    (b'{"specversion":"1.0","id":"1","data":{"uri":"a"}}', Rejection.INVALID, "has no source"),
    (b'{"specversion":"2.0","data":{"uri":"a"}}', Rejection.UNSUPPORTED_VERSION, "CloudEvents 2.0 is not supported"),
    (b'{"specversion":"1.0","type":"x.y","data":{"uri":"a"}}', Rejection.UNKNOWN_TYPE, "x.y is not an event of this topic"),
    (b'{"specversion":"1.0","time":"2026-01-01T00:00:00","data":{"uri":"a"}}', Rejection.INVALID, "$.time"),
]


@pytest.mark.parametrize(("value", "reason", "says"), REFUSED)
def test_an_invalid_record_is_refused_with_a_reason(value: bytes, reason: Rejection, says: str) -> None:
    error = rejection(value)

    assert error.reason == reason
    assert says in str(error)


@pytest.mark.parametrize(
    ("value", "reason", "says"),
    [
        (None, Rejection.MALFORMED, "the record has no value"),
        (b"", Rejection.MALFORMED, "the record has no value"),
        (b'{"uri":"lake://a","extra":{"x":"\\u0000"}}', Rejection.INVALID, NUL),
        (b'{"uri":"lake://a","extra":{"\\\\\\u0000":1}}', Rejection.INVALID, NUL),
        (b'{"specversion":"1.0","id":"1","source":"s"}', Rejection.INVALID, "a CloudEvents event without data"),
    ],
)
def test_a_record_without_data_that_can_be_stored_is_refused(value: bytes | None, reason: Rejection, says: str) -> None:
    error = rejection(value)

    assert (error.reason, str(error)) == (reason, says)


ONLY_DATASETS = "is not an event of this topic, which carries tidegate.dataset-updated.v1"


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        pytest.param({"id": "i" * 101}, f"the CloudEvents id '{'i' * 100}' has no source", id="100 of an id"),
        pytest.param(
            {"source": f"kafka:{'s' * 95}"}, f"the CloudEvents source 'kafka:{'s' * 94}': sources", id="100 of a source"
        ),
        pytest.param({"specversion": "2" * 21}, f"CloudEvents {'2' * 20} is not supported", id="20 of a version"),
        pytest.param({"type": "t" * 201}, f"{'t' * 200} {ONLY_DATASETS}", id="200 of another type"),
        pytest.param(
            {"type": f"tidegate.dataset-updated.v{'2' * 175}"},
            f"tidegate.dataset-updated.v{'2' * 174} is not supported",
            id="200 of a later version",
        ),
        pytest.param({"time": "t" * 101}, f"the header ce_time is '{'t' * 100}', but", id="100 of a time"),
    ],
)
def test_a_refusal_repeats_the_beginning_of_an_attribute(attributes: dict[str, str], says: str) -> None:
    assert str(rejection(b'{"uri":"lake://a"}', headers_of(**attributes))).startswith(says)


def test_a_refusal_repeats_the_beginning_of_a_path() -> None:
    error = rejection(encode(DagFileChanged(path="p" * 101)), kind=Kind.DAG_FILE_CHANGED)

    assert str(error).startswith(f"'{'p' * 100}' is not the path of a DAG file")


BAD_HEADERS = [
    ({"type": "tidegate.dataset-updated.v2"}, Rejection.UNSUPPORTED_VERSION, "accepts tidegate.dataset-updated.v1"),
    ({"type": "tidegate.task-finished.v1"}, Rejection.UNKNOWN_TYPE, "which carries tidegate.dataset-updated.v1"),
    ({"type": ""}, Rejection.UNKNOWN_TYPE, "is not an event of this topic"),
    ({"specversion": "0.3"}, Rejection.UNSUPPORTED_VERSION, "CloudEvents 0.3"),
    ({"id": "7"}, Rejection.INVALID, "the CloudEvents id '7' has no source"),
    ({"id": "7", "source": "kafka:tidegate.dataset-updated/0"}, Rejection.INVALID, "begin with 'kafka:' are reserved"),
    ({"id": "", "source": "s"}, Rejection.INVALID, "CloudEvents id needs 1 to 512 characters"),
    ({"source": "s" * (MAX_ID_LENGTH + 1)}, Rejection.INVALID, "CloudEvents source needs"),
    ({"id": "é" * 512, "source": "\U00020000" * 257}, Rejection.INVALID, "CloudEvents source has 1028 bytes in UTF-8"),
    ({"id": "é" * 511 + "—", "source": "s"}, Rejection.INVALID, "CloudEvents id has 1025 bytes in UTF-8; at most 1024"),
    ({"id": "a\0b", "source": "s"}, Rejection.INVALID, "none of them NUL"),
    ({"time": "yesterday"}, Rejection.INVALID, "the header ce_time is 'yesterday', but must be a time like"),
    ({"time": "2026-01-01T00:00:00"}, Rejection.INVALID, "the header ce_time is '2026-01-01T00:00:00', but must be a time like"),
    ({"time": '"'}, Rejection.INVALID, "the header ce_time is '\"', but must be a time like 2026-11-21T12:00:00Z"),
    ({"time": "0001-01-01T00:00:00+14:00"}, Rejection.INVALID, f"the CloudEvents time 0001-01-01T00:00:00+14:00 {OUT_OF_RANGE}"),
    ({"time": "0001-01-01T00:00:00Z"}, Rejection.INVALID, OUT_OF_RANGE),
    ({"time": "1899-12-31T23:59:59.999999Z"}, Rejection.INVALID, OUT_OF_RANGE),
    ({"time": "2200-01-01T00:00:00.000001Z"}, Rejection.INVALID, OUT_OF_RANGE),
    ({"time": "9999-12-31T23:59:59.999999Z"}, Rejection.INVALID, OUT_OF_RANGE),
]


@pytest.mark.parametrize(("attributes", "reason", "says"), BAD_HEADERS)
def test_an_invalid_envelope_is_refused_with_a_reason(attributes: dict[str, str], reason: Rejection, says: str) -> None:
    error = rejection(b'{"uri":"lake://a"}', headers_of(**attributes))

    assert error.reason == reason
    assert says in str(error)


def test_a_time_in_structured_mode_is_held_to_the_same() -> None:
    error = rejection(b'{"specversion":"1.0","time":"9999-12-31T23:59:59Z","data":{"uri":"lake://a"}}')

    assert (error.reason, str(error)) == (Rejection.INVALID, f"the CloudEvents time 9999-12-31T23:59:59+00:00 {OUT_OF_RANGE}")


@pytest.mark.parametrize("name", ["started_at", "finished_at"])
def test_the_times_of_an_attempt_are_held_to_the_same(name: str) -> None:
    body = b'{"submission_id":"%s","outcome":"failed","%s":"0001-01-01T00:00:00Z"}' % (str(UUID(int=7)).encode(), name.encode())
    error = rejection(body, kind=Kind.TASK_FINISHED)

    assert (error.reason, str(error)) == (Rejection.INVALID, f"{name} 0001-01-01T00:00:00+00:00 {OUT_OF_RANGE}")


def test_an_attribute_that_is_no_text_is_refused() -> None:
    error = rejection(b'{"uri":"lake://a"}', [("ce_source", b"s"), ("ce_id", b"\xff")])

    assert (error.reason, str(error)) == (Rejection.MALFORMED, "the header ce_id is not text in UTF-8")


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
    nested = b"[" * (MAX_DEPTH - 2) + b"]" * (MAX_DEPTH - 2)

    for value in (nested, b'%s,"y":[]' % nested):
        _, event = decode(Kind.DATASET_UPDATED, [], b'{"uri":"lake://a","extra":{"x":%s}}' % value)
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


@pytest.mark.parametrize(
    "field",
    ['"outcome":"done"', '"outcome":"failed","exit_code":4294967296', '"outcome":"failed","started_at":"2026-01-01T00:00:00"'],
)
def test_a_finish_that_cannot_be_recorded_is_refused(field: str) -> None:
    value = b'{"submission_id":"6a1c2f0e-7a4e-5d0b-9d3c-0d6f6a0c9f11",%s}' % field.encode()

    error = rejection(value, kind=Kind.TASK_FINISHED)

    assert error.reason == Rejection.INVALID


@pytest.mark.parametrize(
    ("attributes", "reason", "says"),
    [
        ('"id":"1"', Rejection.INVALID, "the CloudEvents id '1' has no source, and an id is unique within its source only"),
        ('"id":7,"source":"s"', Rejection.INVALID, "Expected `str | null`, got `int` - at `$.id`"),
        ('"id":"","source":"s"', Rejection.INVALID, "the CloudEvents id needs 1 to 512 characters"),
        ('"source":"kafka:x"', Rejection.INVALID, "are reserved for events without an identity"),
        ('"time":"yesterday"', Rejection.INVALID, "at `$.time`"),
        ('"time":"1800-01-01T00:00:00Z"', Rejection.INVALID, OUT_OF_RANGE),
        ('"type":"flight"', Rejection.UNKNOWN_TYPE, "flight is not an event of this topic"),
        ('"type":"tidegate.dataset-updated.v2"', Rejection.UNSUPPORTED_VERSION, "this version accepts"),
    ],
)
def test_attributes_beside_bare_data_are_held_to_the_same(attributes: str, reason: Rejection, says: str) -> None:
    error = rejection(f'{{"uri":"lake://a",{attributes}}}'.encode())

    assert (error.reason, says in str(error)) == (reason, True), str(error)
