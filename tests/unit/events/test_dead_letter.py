"""Replayed dead letters: the unchanged record with its first identity."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tidegate.events import dead_letter
from tidegate.events.dead_letter import REPLAY, Replay, encode_headers, replay_of, replay_record
from tidegate.schemas.wire.dead_letter import DeadLetter
from tidegate.schemas.wire.event import EventId

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)
LATER = datetime(2026, 3, 30, 12, tzinfo=UTC)


def letter(**facts: Any) -> DeadLetter:
    return DeadLetter(
        **{
            "topic": "t.x",
            "partition": 3,
            "offset": 17,
            "key": b"k",
            "headers": [("trace", "t")],
            "value": b"{",
            "value_bytes": 1,
            "reason": "malformed",
            "message": "",
            "recorded_at": NOON,
            **facts,
        }
    )


def test_a_record_goes_back_as_it_came_with_one_header_more() -> None:
    message = replay_record(12, letter())

    assert (message.topic, message.key, message.value) == ("t.x", b"k", b"{")
    assert message.headers[0] == ("trace", b"t")
    assert replay_of(message.headers) == Replay(12, "kafka:t.x/3", "17", NOON)
    assert dead_letter.position_identity("t.x", 3, 17) == EventId("kafka:t.x/3", "17")


def test_replayed_again_it_keeps_its_first_place_and_time() -> None:
    first = replay_record(12, letter())
    again = letter(offset=99, recorded_at=LATER, headers=[(name, value.decode()) for name, value in first.headers])

    message = replay_record(31, again)

    assert [name for name, _ in message.headers] == ["trace", REPLAY]
    assert replay_of(message.headers) == Replay(31, "kafka:t.x/3", "17", NOON)


def test_headers_that_cannot_be_read_go_back_as_bytes() -> None:
    headers = [("trace", b"\xff\0"), ("trace", b"t")]

    message = replay_record(12, letter(headers=[("trace", "\\xff\\x00"), ("trace", "t")], raw_headers=encode_headers(headers)))

    assert list(message.headers[:2]) == headers


def test_a_record_without_key_and_value_goes_back_without_them() -> None:
    message = replay_record(12, letter(key=None, value=None))

    assert (message.key, message.value) == (None, None)


@pytest.mark.parametrize(
    "said",
    [
        *(b"", b"{", b"\xff", b"[]", b"12"),
        b'{"letter": 0, "source": "s", "id": "1", "time": "2026-01-01T00:00:00Z"}',
        b'{"letter": 9223372036854775808, "source": "s", "id": "1", "time": "2026-01-01T00:00:00Z"}',
        b'{"letter": 1, "source": "", "id": "1", "time": "2026-01-01T00:00:00Z"}',
        b'{"letter": 1, "source": "s", "id": "1", "time": "2026-01-01T00:00:00"}',
    ],
)
def test_a_malformed_replay_header_is_ignored(said: bytes) -> None:
    assert replay_of([(REPLAY, said)]) is None


def test_a_record_that_was_never_replayed_has_no_replay_header() -> None:
    assert replay_of([("trace", b"t")]) is None
