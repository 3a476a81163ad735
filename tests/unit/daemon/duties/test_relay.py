"""Which dead letters the relay sends, and which rows of the outbox it deletes."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from tests.shapes import NOW
from tidegate.daemon.context import Context
from tidegate.daemon.duties.outbox_sinks import OutboxSinks, SendResult
from tidegate.daemon.duties.relay import Publisher
from tidegate.daemon.postgres.low_watermark import OutboxWatermark
from tidegate.daemon.settings import Settings
from tidegate.events.sink import ProducerRecord
from tidegate.schemas.queries.outbox import OutboxRow
from tidegate.schemas.wire.dead_letter import DeadLetter
from tidegate.schemas.wire.event import Kind

LETTER = DeadLetter("t.x", 0, 1, b"k", [("trace", "t")], b"{", 1, "malformed", "", NOW)


class Sent:
    """Takes records in place of the sinks, and deletes rows in place of the database, which has these dead letters."""

    def __init__(self, stored: dict[int, DeadLetter]) -> None:
        self.stored = stored
        self.records: list[ProducerRecord] = []
        self.deleted: list[int] = []

    async def send_all(self, _shards: Sequence[int], records: Sequence[ProducerRecord]) -> SendResult:
        self.records += records
        return SendResult([None] * len(records), None)

    async def run(self, *_: Any) -> dict[int, DeadLetter]:
        return self.stored

    async def autocommit(self, _delete: Any, ids: Sequence[int], _held: Any) -> None:
        self.deleted += ids


def row_of(letter: int, *, is_replay: bool) -> OutboxRow:
    return OutboxRow(100 + letter, 0, Kind.DEAD_LETTER, str(letter), "e", NOW, b"", is_replay)


@pytest.mark.parametrize(
    ("damage", "is_replay"), [({"raw_headers": b"{"}, True), ({"headers": ["trace"]}, True), ({"headers": {"trace": 1}}, False)]
)
async def test_a_damaged_dead_letter_stays_and_delays_no_other(damage: dict[str, Any], *, is_replay: bool) -> None:
    sent, watermark = Sent({1: msgspec.structs.replace(LETTER, **damage), 2: LETTER}), OutboxWatermark()
    context = cast(Context, SimpleNamespace(settings=Settings(postgres_dsn="", kafka_servers=""), database=sent))

    rows = [row_of(letter, is_replay=is_replay) for letter in (1, 2, 3)]
    await Publisher(context, cast(OutboxSinks, sent), {0: 1}).publish(watermark, rows)

    assert len(sent.records) == 1
    assert (sent.deleted, watermark.unreadable) == ([102, 103], {101})
