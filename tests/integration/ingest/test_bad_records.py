"""Records that cannot be handled: stored whole as dead letters, with the reason; what came before and after them is taken."""

from collections.abc import Sequence

import pytest
from aiokafka import AIOKafkaProducer

from tests.integration.events.sourcing import Undecodable, send
from tests.integration.ingest.intake import Intake, Sent
from tidegate.events.dead_letter import REPLAY
from tidegate.schemas.queries import datasets
from tidegate.schemas.wire.event import MAX_RECORD_BYTES, Kind, Rejection

BEFORE, AFTER = Sent(b'{"uri": "lake://before"}'), Sent(b'{"uri": "lake://after"}')
FLIGHTS = b'{"uri": "lake://flights"}'
RARE = "".join(map(chr, range(0x20000, 0x20200))).encode()
"""As long as an identity may be, and with another one like it too much for an index, which Postgres alone knows."""

Case = tuple[Sent, Rejection, str]

BAD: dict[str, Case] = {
    "not JSON": (Sent(b"lake://flights"), Rejection.MALFORMED, "not JSON: JSON is malformed: invalid character (byte 0)"),
    "no text": (Sent(b'{"uri": "\xff\xfe"}'), Rejection.MALFORMED, "not JSON: "),
    "no value": (Sent(None, key=b"k"), Rejection.MALFORMED, "the record has no value"),
    "unknown type": (
        Sent(FLIGHTS, [("ce_type", b"com.example.order")]),
        Rejection.UNKNOWN_TYPE,
        "com.example.order is not an event of this topic, which carries tidegate.dataset-updated.v1",
    ),
    "unknown major version": (
        Sent(FLIGHTS, [("ce_specversion", b"1.0"), ("ce_type", b"tidegate.dataset-updated.v2")]),
        Rejection.UNSUPPORTED_VERSION,
        "tidegate.dataset-updated.v2 is not supported; this version accepts tidegate.dataset-updated.v1",
    ),
    "unknown CloudEvents": (
        Sent(FLIGHTS, [("ce_specversion", b"2.0")]),
        Rejection.UNSUPPORTED_VERSION,
        "CloudEvents 2.0 is not supported; use 1.0",
    ),
    "two megabytes": (
        Sent(b'{"uri": "lake://flights", "extra": {"x": "%s"}}' % (b"x" * 2_000_000)),
        Rejection.TOO_LARGE,
        f"2000045 bytes; at most {MAX_RECORD_BYTES} are accepted",
    ),
    "deeply nested": (
        Sent(b'{"uri": "lake://flights", "extra": {"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"),
        Rejection.MALFORMED,
        "nested deeper than 64 levels",
    ),
    "another shape": (
        Sent(b'{"uri": 7}'),
        Rejection.INVALID,
        "not a valid dataset-updated event: Expected `str`, got `int` - at `$.uri`",
    ),
    "a NUL": (Sent(b'{"uri": "lake://flights", "extra": {"x": "\\u0000"}}'), Rejection.INVALID, "a NUL character (\\u0000)"),
    "a time that no clock shows": (
        Sent(FLIGHTS, [("ce_time", b"0001-01-01T00:00:00Z")]),
        Rejection.INVALID,
        "the CloudEvents time 0001-01-01T00:00:00+00:00 is out of range; write a time from 1900-01-01 to 2200-01-01 UTC",
    ),
    "an id too long for an index of Postgres": (
        Sent(FLIGHTS, [("ce_id", RARE), ("ce_source", RARE)]),
        Rejection.INVALID,
        "the CloudEvents source has 2048 bytes in UTF-8; at most 1024 are possible",
    ),
}


@pytest.mark.parametrize("case", BAD)
async def test_a_bad_record_is_put_aside_whole_and_its_neighbours_are_taken(intake: Intake, case: str) -> None:
    record, reason, says = BAD[case]

    await intake.take(Kind.DATASET_UPDATED, BEFORE, record, AFTER)

    (letter,) = await intake.letters()
    assert (letter["topic"], letter["partition"], letter["offset"]) == (*intake.partition(Kind.DATASET_UPDATED), 1)
    assert (letter["key"], letter["value"], letter["reason"]) == (record.key, record.value, reason)
    assert letter["headers"] == readable(record.headers)
    assert letter["message"].startswith(says)
    assert await intake.uris() == ["lake://before", "lake://after"]


async def test_null_headers_and_keys_that_are_not_utf8_stop_nothing(intake: Intake) -> None:
    """A record is taken, or becomes a dead letter, by its value."""
    kind = Kind.DATASET_UPDATED
    async with AIOKafkaProducer(bootstrap_servers=intake.settings.kafka_servers) as producer:
        await send(producer, intake.settings.topic(kind), [(REPLAY, None)], [("ce_id", None)], [(Undecodable("bad"), b"1")])

    await intake.take(kind, BEFORE, Sent(b"{", [(REPLAY, b"{")]), AFTER)

    letters = await intake.letters()
    assert [(letter["offset"], letter["headers"]) for letter in letters] == [
        (0, [[REPLAY, ""]]), (1, [["ce_id", ""]]), (2, [[r"b\xffd", "1"]]), (4, [[REPLAY, "{"]]),
    ]  # fmt: skip
    assert await intake.uris() == ["lake://before", "lake://after"]


async def test_an_id_and_a_source_of_most_bytes_are_taken_once(intake: Intake) -> None:
    longest = Sent(FLIGHTS, [("ce_id", RARE[:1024]), ("ce_source", RARE[-1024:])])

    await intake.take(Kind.DATASET_UPDATED, longest, longest)

    assert await intake.letters() == []
    assert await intake.uris() == ["lake://flights"]


async def test_bad_records_among_themselves_are_each_put_aside(intake: Intake) -> None:
    records = [record for record, _, _ in BAD.values()]

    await intake.take(Kind.DATASET_UPDATED, *records)

    assert [letter["value"] for letter in await intake.letters()] == [record.value for record in records]
    assert await intake.uris() == []


@pytest.mark.parametrize(
    ("kind", "known"),
    [(Kind.DAG_FILE_CHANGED, "tidegate.dag-file-changed.v1"), (Kind.TASK_FINISHED, "tidegate.task-finished.v1")],
)
async def test_an_event_in_the_wrong_topic_is_put_aside(intake: Intake, kind: Kind, known: str) -> None:
    await intake.take(kind, Sent(FLIGHTS, [("ce_type", b"tidegate.dataset-updated.v1")]))

    (letter,) = await intake.letters()
    assert (letter["value"], letter["reason"]) == (FLIGHTS, Rejection.UNKNOWN_TYPE)
    assert letter["message"] == f"tidegate.dataset-updated.v1 is not an event of this topic, which carries {known}"


def readable(headers: Sequence[tuple[str, bytes]]) -> list[list[str]]:
    return [[name, value.decode()] for name, value in headers]


async def test_an_id_without_a_source_is_put_aside_and_no_event_of_another_producer_is_lost(intake: Intake) -> None:
    await intake.take(Kind.DATASET_UPDATED, *(Sent(b'{"uri": "lake://%d"}' % n, [("ce_id", b"1")]) for n in range(2)))

    letters = await intake.letters()
    assert [(letter["offset"], letter["reason"]) for letter in letters] == [(0, Rejection.INVALID), (1, Rejection.INVALID)]
    assert letters[0]["message"].endswith("send both, or neither")


async def test_bare_data_with_an_identity_is_one_event_however_often_it_comes(intake: Intake) -> None:
    await intake.take(Kind.DATASET_UPDATED, *[Sent(b'{"uri": "kk://x", "id": "bare", "source": "rev"}')] * 2)

    assert (await intake.letters(), await intake.uris()) == ([], ["kk://x"])
    assert await intake.rows("SELECT source, event_id FROM dataset_event") == [{"source": "rev", "event_id": "bare"}]


async def test_fields_that_are_ignored_are_noted_on_their_dataset(intake: Intake) -> None:
    """Each once, however many events have them; a producer that makes up names fills no table."""
    await intake.take(
        Kind.DATASET_UPDATED, *[Sent(b'{"uri": "lake://a", "extras": {"day": "1"}}')] * 3, Sent(b'{"uri": "lake://b"}')
    )
    first = await intake.rows("SELECT * FROM ignored_field")
    intake.database.clear_memory()
    await intake.take(Kind.DATASET_UPDATED, *(Sent(b'{"uri": "lake://a", "f%d": 1}' % n) for n in range(30)))
    await intake.take(Kind.DATASET_UPDATED, Sent(b'{"uri": "lake://a", "extras": {"day": "1"}}'))

    listed = {row.uri: row.ignored_fields for row in await intake.database.run(datasets.list_datasets, None, 9)}
    (again,) = await intake.rows("SELECT * FROM ignored_field WHERE name = 'extras'")

    assert [row["name"] for row in first] == ["extras"]
    assert (len(listed["lake://a"]), listed["lake://b"]) == (datasets.MAX_IGNORED, [])
    assert (again["first_at"], again["last_at"] > first[0]["last_at"]) == (first[0]["first_at"], True)
    assert (await intake.letters(), len(await intake.uris())) == ([], 35)
