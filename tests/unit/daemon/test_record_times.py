"""The time of a message that its envelope does not give."""

from datetime import UTC, datetime

import msgspec
import pytest

from tidegate.daemon.intake.batches import read
from tidegate.events.dead_letter import REPLAY, Replay
from tidegate.events.source import Record
from tidegate.schemas.error import RejectedError
from tidegate.schemas.message import Message
from tidegate.schemas.wire.event import Kind, Rejection

NOW, LAST = datetime(2026, 3, 28, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
FIRST_DELIVERY = Replay(1, "kafka:t/0", "7", LAST)


@pytest.mark.parametrize(("at", "replay"), [(LAST, []), (NOW, [(REPLAY, msgspec.json.encode(FIRST_DELIVERY))])])
def test_a_time_out_of_range_is_refused_wherever_it_comes_from(at: datetime, replay: list[tuple[str, bytes]]) -> None:
    record = Record("t", 0, 7, at, None, replay, b'{"uri": "lake://a"}')

    reading = read(Kind.DATASET_UPDATED, record).reading

    assert isinstance(reading, RejectedError)
    assert reading.reason == Rejection.INVALID
    assert str(reading).startswith("the time of the record 9999-12-31T23:59:59.999999+00:00 is out of range")


def test_a_record_without_a_time_in_its_envelope_has_that_of_kafka() -> None:
    reading = read(Kind.DATASET_UPDATED, Record("t", 0, 7, NOW, None, [], b'{"uri": "lake://a"}')).reading

    assert isinstance(reading, Message)
    assert reading.at == NOW
