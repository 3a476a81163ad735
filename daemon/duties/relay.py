"""Relay: sends the outbox to Kafka in order and deletes rows after the broker's acknowledgement."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import anyio
import structlog
from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.duties.outbox_sinks import OutboxSinks
from tidegate.daemon.duties.run_on_signal import run_on_signal
from tidegate.daemon.postgres.low_watermark import OutboxWatermark
from tidegate.daemon.settings import Settings
from tidegate.daemon.work import Work
from tidegate.events import dead_letter
from tidegate.events.cloudevents import headers
from tidegate.events.sink import MAX_MESSAGE_BYTES, OutMessage, Sink, message_bytes
from tidegate.schemas.error import FencedError
from tidegate.schemas.queries import inbox, outbox, writers
from tidegate.schemas.queries.inbox import DeadLetter
from tidegate.schemas.queries.leases import OUTBOX, LeaseSpec
from tidegate.schemas.queries.outbox import OutboxRow, UnreadableRow
from tidegate.schemas.wire.event import PRODUCER_SOURCE, Kind

log = structlog.get_logger()

MAX_BATCH = 1000
MAX_DEAD_LETTERS = 8
"""Dead letters in memory at once: each may be as large as a record."""

PACE_S = 0.025
"""Minimum time between two rounds, which fills batches under load. A single event is not delayed."""


def duties() -> list[LeaseSpec]:
    """One per shard of the outbox."""
    return [LeaseSpec(OUTBOX, str(shard)) for shard in outbox.shards()]


async def relay(context: Context, *, task_status: TaskStatus[None]) -> None:
    """Relay, for ever. A crash between acknowledgement and deletion causes duplicates, which subscribers drop by `seq`."""
    async with outbox_sinks(context.settings) as sinks:
        task_status.started()
        await run_on_signal(context, Work.RELAY, partial(_unless_fenced, context, sinks, OutboxWatermark()), pace_s=PACE_S)


def outbox_sinks(settings: Settings) -> OutboxSinks:
    """The sinks of a daemon with these settings."""
    return OutboxSinks(
        lambda id_: Sink(settings.kafka_servers, security=settings.kafka_security, transactional_id=id_), settings.topic_prefix
    )


async def _unless_fenced(context: Context, sinks: OutboxSinks, watermark: OutboxWatermark) -> bool:
    """A daemon that resumes after its leases were claimed is fenced until its next renewal."""
    try:
        return await relay_batch(context, sinks, watermark)
    except FencedError as error:
        log.info("relay_fenced", reason=str(error))
        return False


async def relay_batch(context: Context, sinks: OutboxSinks, watermark: OutboxWatermark) -> bool:
    """Send one batch of the leased shards; whether more may be left. Raises FencedError for one that has a new owner."""
    held = context.held_leases.shards(OUTBOX)
    if not held:
        return False
    await sinks.hold(held)
    found = await _next_rows(context, watermark, held)
    rows = list(_readable(watermark, found))
    if unconnected := {row.shard for row in rows} - sinks.connected:
        await sinks.connect(unconnected)
        return True  # A row may be sent by a sink only that has connected before the row was read.
    publisher = Publisher(context, sinks, held)
    if events := [row for row in rows if row.kind is not Kind.DEAD_LETTER]:
        await publisher.send_events(watermark, events)
    dead_letters = [row for row in rows if row.kind is Kind.DEAD_LETTER]
    for start in range(0, len(dead_letters), MAX_DEAD_LETTERS):
        await publisher.send_dead_letters(dead_letters[start : start + MAX_DEAD_LETTERS])
    if rows:
        context.outages.end("Kafka")
    return len(found) == MAX_BATCH


def _readable(watermark: OutboxWatermark, rows: Sequence[OutboxRow | UnreadableRow]) -> Iterator[OutboxRow]:
    """The rows without the damaged ones."""
    for row in rows:
        if isinstance(row, OutboxRow):
            yield row
        else:
            _report(watermark, row.id, row.reason)


def _report(watermark: OutboxWatermark, id_: int, reason: str) -> None:
    """Log a row that cannot be published, and read it no more."""
    watermark.unreadable.add(id_)
    log.error("outbox_row_unreadable", id=id_, reason=reason)


async def _next_rows(
    context: Context, watermark: OutboxWatermark, held: Mapping[int, int]
) -> Sequence[OutboxRow | UnreadableRow]:
    if watermark.committed.take_turn(anyio.current_time()):
        watermark.committed.advance(await context.database.autocommit(writers.of_outbox))
    lowest = watermark.lower_bound(held)
    rows = await context.database.autocommit(outbox.next_rows, held, lowest, MAX_BATCH, watermark.unreadable)
    watermark.advance(rows[0].id if rows else None)
    return rows


class Publisher:
    """Sends rows of the shards `held`, and deletes them when they are acknowledged."""

    def __init__(self, context: Context, sinks: OutboxSinks, held: Mapping[int, int]) -> None:
        self._context = context
        self._sinks = sinks
        self._held = held

    async def send_events(self, watermark: OutboxWatermark, rows: Sequence[OutboxRow]) -> None:
        sent = [(row, message) for row in rows for message in messages(self._context.settings, row)]
        too_large = {row.id for row, message in sent if message_bytes(message) > MAX_MESSAGE_BYTES}
        for id_ in too_large:
            _report(watermark, id_, f"its message is larger than {MAX_MESSAGE_BYTES} bytes")
        sent = [(row, message) for row, message in sent if row.id not in too_large]
        await self.send([row for row, _ in sent], [message for _, message in sent])

    async def send_dead_letters(self, rows: Sequence[OutboxRow]) -> None:
        """Load the records and send them; skip dead letters that were deleted."""
        stored = await self._context.database.run(inbox.whole_dead_letters, [int(row.key) for row in rows])
        present = [row for row in rows if int(row.key) in stored]
        letters = [_dead_letter(self._context.settings, row, stored[int(row.key)]) for row in present]
        await self.send(present, letters)
        await self.delete([row for row in rows if int(row.key) not in stored])

    async def send(self, rows: Sequence[OutboxRow], messages: Sequence[OutMessage]) -> None:
        """`rows` has the row of each message. A row is deleted when all its messages are acknowledged."""
        result = await self._sinks.send_all([row.shard for row in rows], messages)
        missing = {row.id for row, arrived in zip(rows, result.acknowledged, strict=True) if not arrived}
        await self.delete([row for row in rows if row.id not in missing])
        if result.problem is not None:
            raise result.problem

    async def delete(self, rows: Sequence[OutboxRow]) -> None:
        if rows:
            await self._context.database.autocommit(outbox.delete, sorted({row.id for row in rows}), self._held)


def _dead_letter(settings: Settings, row: OutboxRow, letter: DeadLetter) -> OutMessage:
    """The message for the dead-letter topic, or for the original topic when it is replayed."""
    if row.is_replay:
        return dead_letter.replay_message(int(row.key), letter)
    topic = settings.topic(Kind.DEAD_LETTER)
    return dead_letter.dead_letter_message(
        topic, int(row.key), letter, event_id=row.event_id, source=PRODUCER_SOURCE, time=row.time
    )


def messages(settings: Settings, row: OutboxRow) -> Iterator[OutMessage]:
    """The CloudEvents of a row, in binary mode."""
    topic, key = settings.topic(row.kind), row.key.encode()
    for event_id, payload in row.events():
        event_headers = headers(row.kind, event_id=event_id, source=PRODUCER_SOURCE, time=row.time)
        yield OutMessage(topic=topic, key=key, value=payload, headers=event_headers)
