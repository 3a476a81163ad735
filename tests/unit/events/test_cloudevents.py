"""Outgoing envelopes decode as incoming ones."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tidegate.events.cloudevents import headers
from tidegate.schemas.wire.envelope import Envelope, decode
from tidegate.schemas.wire.event import Kind

NOON = datetime(2026, 3, 29, 12, 0, 0, 123456, tzinfo=UTC)


def test_the_headers_are_those_of_the_kafka_binding() -> None:
    written = headers(Kind.DAG_RUN_STATE, event_id="d/r/1", source="tidegate", time=NOON)

    assert written == [
        ("ce_specversion", b"1.0"),
        ("ce_id", b"d/r/1"),
        ("ce_source", b"tidegate"),
        ("ce_type", b"tidegate.dag-run-state.v1"),
        ("ce_time", b"2026-03-29T12:00:00.123456+00:00"),
        ("content-type", b"application/json"),
    ]


@pytest.mark.parametrize("time", [NOON, NOON.replace(microsecond=0), NOON.astimezone(timezone(timedelta(hours=-9)))])
def test_an_envelope_comes_back_as_it_was(time: datetime) -> None:
    written = headers(Kind.DATASET_UPDATED, event_id="Zoë-1", source="flights import", time=time)

    envelope, _ = decode(Kind.DATASET_UPDATED, written, b'{"uri":"lake://a"}')

    assert envelope == Envelope(source="flights import", id="Zoë-1", time=time)
