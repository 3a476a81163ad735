"""The outbox to Kafka: sent in order, deleted after the broker's acknowledgement and not before."""

from collections.abc import Iterator, Sequence, Set
from functools import partial

import anyio
import structlog
from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.duties.run_on_signal import run_on_signal
from tidegate.daemon.postgres.low_watermark import OutboxWatermark
from tidegate.daemon.settings import Settings
from tidegate.daemon.work import Work
from tidegate.events import dead_letter
from tidegate.events.cloudevents import headers
from tidegate.events.sink import OutMessage, Sink, UndeliveredError
from tidegate.schemas.queries import inbox, outbox, writers
from tidegate.schemas.queries.inbox import DeadLetter
from tidegate.schemas.queries.leases import OUTBOX, Duty
from tidegate.schemas.queries.outbox import OutboxRow
from tidegate.schemas.wire.event import Kind

log = structlog.get_logger()

SOURCE = "tidegate"
AT_ONCE = 1000
LETTERS_AT_ONCE = 8
PACE_S = 0.025
"""From one look to the next at least: under load, what comes in that time travels together. A lone event waits for nothing."""


def duties() -> list[Duty]:
    """One per shard of the outbox."""
    return [Duty(OUTBOX, str(shard)) for shard in outbox.shards()]


async def relay(context: Context, *, task_status: TaskStatus[None]) -> None:
    """For ever. Killed between acknowledgement and deletion it sends again: subscribers drop what they have by `seq`."""
    async with Sink(context.settings.kafka_servers) as sink:
        task_status.started()
        await run_on_signal(context, Work.RELAY, partial(relayed, context, sink, OutboxWatermark()), pace_s=PACE_S)


async def relayed(context: Context, sink: Sink, watermark: OutboxWatermark) -> bool:
    """Send what waits in our shards, once; whether there may be more."""
    shards = {int(key) for key in context.held_leases.of(OUTBOX)}
    if not shards:
        return False
    rows = await _next_rows(context, watermark, shards)
    if events := [row for row in rows if row.kind is not Kind.DEAD_LETTER]:
        await _send_events(context, sink, events)
    letters = [row for row in rows if row.kind is Kind.DEAD_LETTER]
    for start in range(0, len(letters), LETTERS_AT_ONCE):
        await _send_letters(context, sink, letters[start : start + LETTERS_AT_ONCE])
    if rows:
        context.outages.end("Kafka")
    return len(rows) == AT_ONCE


async def _next_rows(context: Context, watermark: OutboxWatermark, shards: Set[int]) -> Sequence[OutboxRow]:
    if watermark.committed.is_due(anyio.current_time()):
        watermark.committed.advance(await context.database.ask(writers.of_outbox))
    lowest = watermark.lower_bound(shards)
    rows = await context.database.ask(outbox.next_rows, sorted(shards), lowest, AT_ONCE)
    watermark.advance(rows[0].id if rows else None)
    return rows


async def _send_events(context: Context, sink: Sink, rows: Sequence[OutboxRow]) -> None:
    sent = [(row, message) for row in rows for message in messages(context.settings, row)]
    await _send(context, sink, [row for row, _ in sent], [message for _, message in sent])


async def _send_letters(context: Context, sink: Sink, rows: Sequence[OutboxRow]) -> None:
    """Read whole only now, a few at a time: each may be as large as a record. One that somebody removed is not sent."""
    found = await context.database.run(inbox.whole_dead_letters, [int(row.key) for row in rows])
    there = [row for row in rows if int(row.key) in found]
    await _send(context, sink, there, [_letter(context.settings, row, found[int(row.key)]) for row in there])
    await _delete(context, [row for row in rows if int(row.key) not in found])


async def _send(context: Context, sink: Sink, rows: Sequence[OutboxRow], messages: Sequence[OutMessage]) -> None:
    """`rows` has the row of each message. A row is done with when all its messages have arrived."""
    try:
        await sink.send_all(messages)
    except UndeliveredError as error:
        missing = {row.id for row, arrived in zip(rows, error.acknowledged, strict=True) if not arrived}
        await _delete(context, [row for row in rows if row.id not in missing])
        raise
    await _delete(context, rows)


def _letter(settings: Settings, row: OutboxRow, letter: DeadLetter) -> OutMessage:
    """To the dead-letter topic, or where it came from."""
    if row.is_replay:
        return dead_letter.replay_message(int(row.key), letter)
    topic = settings.topic(Kind.DEAD_LETTER)
    return dead_letter.dead_letter_message(topic, int(row.key), letter, event_id=row.event_id, source=SOURCE, time=row.time)


def messages(settings: Settings, row: OutboxRow) -> Iterator[OutMessage]:
    """What a row says, as CloudEvents in binary mode."""
    topic, key = settings.topic(row.kind), row.key.encode()
    for event_id, payload in row.events():
        about = headers(row.kind, event_id=event_id, source=SOURCE, time=row.time)
        yield OutMessage(topic=topic, key=key, value=payload, headers=about)


async def _delete(context: Context, rows: Sequence[OutboxRow]) -> None:
    if rows:
        await context.database.ask(outbox.delete, sorted({row.id for row in rows}))
