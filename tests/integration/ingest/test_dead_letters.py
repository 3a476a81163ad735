"""Dead letters are published as well: the record as it came, why it was put aside, and whence."""

import pytest

from tests.integration.ingest.intake import Intake, Sent
from tests.integration.ingest.test_bad_records import BAD, readable
from tidegate.events.dead_letter import SAMPLE_BYTES
from tidegate.schemas.wire.event import MAX_RECORD_BYTES, Kind, Rejection

BAD_KEYED = Sent(b"{", [("trace", b"t-1"), ("ce_id", b"7")], key=b"k")


async def test_a_dead_letter_is_published_as_it_came_with_reason_and_origin(intake: Intake) -> None:
    await intake.take(Kind.DATASET_UPDATED, Sent(b'{"uri": "lake://before"}'), BAD_KEYED)

    (record,) = await intake.relay(Kind.DEAD_LETTER)

    (letter,) = await intake.letters()
    headers = {name: value.decode() for name, value in record.headers}
    topic = intake.settings.topic(Kind.DATASET_UPDATED)
    assert (record.key, record.value) == (b"k", b"{")
    assert {name: headers[name] for name in ("ce_type", "ce_source", "ce_id", "content-type")} == {
        "ce_type": "tidegate.dead-letter.v1",
        "ce_source": "tidegate",
        "ce_id": f"{topic}/0/1@{letter['recorded_at'].isoformat()}",
        "content-type": "application/octet-stream",
    }
    assert (headers["ce_reason"], headers["ce_message"]) == (letter["reason"], letter["message"])
    assert (headers["ce_topic"], headers["ce_partition"], headers["ce_offset"]) == (topic, "0", "1")
    assert (headers["ce_letter"], headers["ce_valuebytes"]) == (str(letter["id"]), "1")
    assert (headers["original_trace"], headers["original_ce_id"], "ce_shortened" in headers) == ("t-1", "7", False)


async def test_every_dead_letter_is_published_once_and_in_order(intake: Intake) -> None:
    await intake.take(Kind.DATASET_UPDATED, *(record for record, _, _ in BAD.values()))

    await intake.relay(Kind.DEAD_LETTER)
    records = await intake.relay(Kind.DEAD_LETTER)

    assert [dict(record.headers)["ce_offset"] for record in records] == [str(offset).encode() for offset in range(len(BAD))]
    assert [dict(record.headers)["ce_reason"].decode() for record in records] == [reason for _, reason, _ in BAD.values()]


@pytest.mark.parametrize(
    "record",
    [
        Sent(b"x" * 2_000_000, [("trace", b"t-1")]),
        Sent(b"x" * (MAX_RECORD_BYTES - 100)),
        Sent(b"x" * 100_000, key=b"k" * 1_000_000),
        Sent(b"x" * 100_000, [("trace", b"t" * 1_000_000)]),
    ],
    ids=["value", "with our headers", "key", "headers"],
)
async def test_a_dead_letter_that_kafka_would_not_take_is_published_in_part_and_kept_whole(intake: Intake, record: Sent) -> None:
    await intake.take(Kind.DATASET_UPDATED, record)

    (published,) = await intake.relay(Kind.DEAD_LETTER)

    (letter,) = await intake.letters()
    headers = dict(published.headers)
    assert (published.key, published.value) == (None, b"x" * SAMPLE_BYTES)
    assert (headers["ce_shortened"], int(headers["ce_valuebytes"])) == (b"true", len(record.value or b""))
    assert not any(name.startswith("original_") for name in headers)
    assert int(headers["ce_letter"]) == letter["id"]
    assert (letter["key"], letter["value"], letter["headers"]) == (record.key, record.value, readable(record.headers))


async def test_a_finish_that_is_rejected_by_a_decision_is_published_too(intake: Intake) -> None:
    value = b'{"submission_id": "6a1c2f0e-7a4e-5d0b-9d3c-0d6f6a0c9f11", "outcome": "succeeded"}'
    await intake.take(Kind.TASK_FINISHED, Sent(value))

    (record,) = await intake.relay(Kind.DEAD_LETTER)

    assert (record.value, dict(record.headers)["ce_reason"]) == (value, Rejection.UNKNOWN_ATTEMPT.encode())


async def test_a_dead_letter_that_was_removed_is_not_published(intake: Intake) -> None:
    await intake.take(Kind.DATASET_UPDATED, BAD_KEYED)
    await intake.rows("DELETE FROM dead_letter")

    assert await intake.relay(Kind.DEAD_LETTER) == []
    assert await intake.rows("SELECT FROM outbox") == []
