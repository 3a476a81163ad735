"""A dead letter is made of any record."""

from datetime import UTC, datetime
from typing import Any

from tidegate.daemon.intake.batches import dead_letter_of
from tidegate.events.dead_letter import REPLAY
from tidegate.events.source import Record
from tidegate.schemas.wire.event import Rejection

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)


def record(*headers: Any) -> Record:
    return Record("t.x", 3, 17, NOON, b"k", headers, b"{")


def test_a_replay_header_of_any_depth_is_no_obstacle() -> None:
    letter = dead_letter_of(record((REPLAY, b'{"x":' + b"[" * 100_000)), Rejection.MALFORMED, "not JSON")

    assert (letter.replay_of, [name for name, _ in letter.headers]) == (None, [REPLAY])


def test_headers_that_cannot_be_stored_are_left_out() -> None:
    letter = dead_letter_of(record((REPLAY, None), ("\ud800", b"")), Rejection.MALFORMED, "not JSON")

    assert (letter.topic, letter.partition, letter.offset, letter.value) == ("t.x", 3, 17, b"{")
    assert (letter.headers, letter.raw_headers) == ([], None)
