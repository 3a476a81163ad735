"""A record that is too slow for Postgres alone delays no other partition of its topic."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import anyio
import pytest
from aiokafka import AIOKafkaProducer, codec

from tests.integration.events.states import add_partitions
from tests.integration.ingest.intake import LOOK_EVERY_S, Intake, Sent
from tidegate.daemon.context import Context
from tidegate.daemon.engine import Applied, Batch
from tidegate.daemon.intake import former_offsets, ingest, unread
from tidegate.daemon.intake.stepping_over import SteppedOver, step_over
from tidegate.daemon.settings import Settings
from tidegate.events.source import Partition, Record, Source, UnreadableBatchError
from tidegate.schemas.error import NotFoundError, RequestError, TooSlowError
from tidegate.schemas.message import DatasetUpdateDeferred
from tidegate.schemas.wire.event import DatasetUpdated, Kind

KIND = Kind.DATASET_UPDATED
SLOW, BEHIND = Sent(b'{"uri": "lake://slow"}'), Sent(b'{"uri": "lake://behind"}')
SAID = "ada stepped over it, which was too slow: it has a million keys"
HALTS = "SELECT next_offset FROM ingest_incident"
OTHERS = [Sent(b'{"uri": "lake://other%d"}' % number) for number in range(20)]


class Postgres:
    """Transactions with the slow record take too long, until it `is_fast`. `is_broken`: the first decision about it fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_broken: bool) -> None:
        self.is_broken, self.is_fast = is_broken, False
        self.apply, self.sources = Context.apply, 0
        open_source = former_offsets.open_source

        async def apply(context: Context, batch: Batch) -> Applied:
            for message in batch.messages:
                self.check(message.body)
            return await self.apply(context, batch)

        def opened(settings: Settings) -> Source:
            self.sources += 1
            return open_source(settings)

        monkeypatch.setattr(Context, "apply", apply)
        monkeypatch.setattr(ingest, "open_source", opened)
        monkeypatch.setattr(unread, "FIRST_PAUSE_S", 0.1)

    def check(self, body: Any) -> None:
        update = body.update if isinstance(body, DatasetUpdateDeferred) else body
        if update.uri == "lake://slow" and not self.is_fast:
            if self.is_broken and isinstance(body, DatasetUpdated):
                raise KeyError("surprise")
            raise TooSlowError("canceling statement due to statement timeout", server="Postgres")


@pytest.mark.parametrize("is_broken", [False, True])
async def test_the_other_partitions_are_read_on_and_its_own_one_goes_on_behind_it(
    intake: Intake, monkeypatch: pytest.MonkeyPatch, is_broken: bool
) -> None:
    postgres = Postgres(monkeypatch, is_broken=is_broken)
    await add_partitions(intake.settings.kafka_servers, intake.settings.topic(KIND), 1)
    first = await intake.send(KIND, SLOW, BEHIND)
    second = await intake.send(KIND, *OTHERS, partition=1)
    outages = intake.context.outages

    async with intake.reading(KIND):
        while await intake.stands(KIND, 1) != second or not outages.away:
            await anyio.sleep(LOOK_EVERY_S)
        away = {name: away.error for name, away in outages.away.items()}
        others = await intake.uris()
        postgres.is_fast = True
        while await intake.stands(KIND) != first or outages.away:
            await anyio.sleep(LOOK_EVERY_S)

    assert sorted(others) == sorted(f"lake://other{number}" for number in range(20))
    assert await intake.uris() == [*others, "lake://slow", "lake://behind"]
    assert (await intake.letters(), postgres.sources) == ([], 1)
    assert list(away) == [f"Kafka partition {intake.settings.topic(KIND)}/0"]
    assert next(iter(away.values())).startswith("the record at offset 0 waits for another try: canceling statement")


async def test_a_record_that_stays_too_slow_is_stepped_over_once(intake: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
    Postgres(monkeypatch, is_broken=False)
    monkeypatch.setattr(unread, "FIRST_PAUSE_S", 600.0)
    end = await intake.send(KIND, SLOW, BEHIND)
    partition = f"{intake.settings.topic(KIND)}/0"
    step = partial(step_over, intake.database, intake.settings, "ada", partition, because="it has a million keys")

    async with intake.reading(KIND):
        while not await intake.rows("SELECT FROM job WHERE away <> '{}'"):
            await anyio.sleep(LOOK_EVERY_S)
        with pytest.raises(NotFoundError, match="no daemon waits with the record at offset 1"):
            await step(offset=1)
        done = await step(offset=0)
        with pytest.raises((NotFoundError, RequestError)):
            await step(offset=0)
        while await intake.stands(KIND) != end or intake.context.outages.away:
            await anyio.sleep(LOOK_EVERY_S)

    (letter,) = await intake.letters()
    assert done == SteppedOver(partition, 0, 1, letter["id"])
    assert (letter["reason"], letter["message"], letter["value"]) == ("unprocessable", SAID, SLOW.value)
    assert await intake.uris() == ["lake://behind"]
    assert await intake.rows("SELECT who, what, object, details FROM audit_log") == [
        {
            "who": "ada",
            "what": "stepped over a record",
            "object": f"partition {partition}",
            "details": {"offset": 0, "next_offset": 1, "because": "it has a million keys"},
        }
    ]
    assert [record.value for record in await intake.relay(Kind.DEAD_LETTER)] == [SLOW.value]


async def test_a_partition_that_waits_with_a_slow_record_does_not_halt_behind_it(
    intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the records between would be passed over by an operator who resumes it."""
    postgres = Postgres(monkeypatch, is_broken=False)
    await intake.send(KIND, SLOW)
    await send_unreadable(intake)
    monkeypatch.setattr(codec, "has_lz4", lambda: False)
    fetch, unreadable = Source.fetch, list[UnreadableBatchError]()

    async def fetch_and_tell(source: Source, timeout_s: float, max_records: int) -> Mapping[Partition, Sequence[Record]]:
        try:
            return await fetch(source, timeout_s, max_records)
        except UnreadableBatchError as error:
            unreadable.append(error)
            raise

    monkeypatch.setattr(Source, "fetch", fetch_and_tell)

    async with intake.reading(KIND):
        while not unreadable or not intake.context.outages.away:
            await anyio.sleep(LOOK_EVERY_S)
        early = await intake.rows(HALTS)
        postgres.is_fast = True
        while not (halts := await intake.rows(HALTS)):
            await anyio.sleep(LOOK_EVERY_S)

    assert (early, halts) == ([], [{"next_offset": 1}])
    assert await intake.uris() == ["lake://slow"]


async def send_unreadable(intake: Intake) -> None:
    """A record in a batch of a codec, which a test can take away from the reader."""
    async with AIOKafkaProducer(bootstrap_servers=intake.settings.kafka_servers, compression_type="lz4") as producer:
        await producer.send_and_wait(
            intake.settings.topic(KIND), BEHIND.value, BEHIND.key, partition=0, headers=list(BEHIND.headers)
        )
