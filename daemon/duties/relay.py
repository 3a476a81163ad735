"""Relay: sends the outbox to Kafka in order and deletes rows after the broker's acknowledgement."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import anyio
import structlog
from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.duties.outbox_sinks import OutboxSinks, Place, outbox_sinks
from tidegate.daemon.duties.run_on_signal import run_on_signal
from tidegate.daemon.outage import ReportedOutages
from tidegate.daemon.postgres.low_watermark import OutboxWatermark
from tidegate.daemon.settings import Settings
from tidegate.daemon.work import Work
from tidegate.events import dead_letter
from tidegate.events.cloudevents import common_headers, with_id
from tidegate.events.outbox_sink import MISSING
from tidegate.events.signature import HEADER, signature
from tidegate.events.sink import MAX_SENT_BYTES, ProducerRecord, record_bytes
from tidegate.events.source import Partition
from tidegate.schemas.error import FATAL, KAFKA, UNSENT, FencedError, described
from tidegate.schemas.queries import inbox, installation, outbox, writers
from tidegate.schemas.queries.leases import OUTBOX, LeaseSpec
from tidegate.schemas.queries.outbox import OutboxRow, Seen, UnreadableRow
from tidegate.schemas.wire.dead_letter import DeadLetter
from tidegate.schemas.wire.event import PRODUCER_SOURCE, Kind

log = structlog.get_logger()

MAX_BATCH = 1000
MAX_DEAD_LETTERS = 8
"""Dead letters in memory at once: each may be as large as a record."""

PACE_S = 0.025
"""Minimum time between two rounds, which fills batches under load. A single event is not delayed."""


def leases() -> list[LeaseSpec]:
    """One per shard of the outbox."""
    return [LeaseSpec(OUTBOX, str(shard)) for shard in outbox.shards()]


async def relay(context: Context, *, task_status: TaskStatus[None]) -> None:
    """Relay, for ever. A crash between acknowledgement and deletion causes duplicates, which subscribers drop by `seq`."""
    silent = ReportedOutages(context.outages, UNSENT)
    async with outbox_sinks(context.settings) as sinks:
        task_status.started()
        step = partial(_unless_fenced, context, sinks, OutboxWatermark(), silent)
        await run_on_signal(context, Work.RELAY, step, pace_s=PACE_S)


async def _unless_fenced(context: Context, sinks: OutboxSinks, watermark: OutboxWatermark, silent: ReportedOutages) -> bool:
    """A daemon that resumes after its leases were claimed is fenced until its next renewal."""
    try:
        more = await relay_batch(context, sinks, watermark)
    except FencedError as error:
        log.info("relay_fenced", reason=str(error))
        return False
    partitions = {_name(partition): reason for partition, reason in sinks.silent.items()}
    silent.report(partitions | {f"shard {shard}": reason for shard, reason in sinks.unconnected.items()})
    return more


def _name(silent: Partition) -> str:
    return f"topic {silent.topic}" if silent.partition == MISSING else f"partition {silent.topic}/{silent.partition}"


async def relay_batch(context: Context, sinks: OutboxSinks, watermark: OutboxWatermark) -> bool:
    """Send one batch of the leased shards. Returns whether more may be left.

    Raises FencedError for a shard that has a new owner.
    """
    held = context.held_leases.shards(OUTBOX)
    await sinks.hold(held)
    if not held:
        return False
    await sinks.settle()
    held = {shard: epoch for shard, epoch in held.items() if shard not in sinks.connecting}
    resting = sinks.resting
    found, have_waited = await _next_rows(context, watermark, held, resting)
    rows = list(_readable(watermark, found))
    if unconnected := {row.shard for row in rows} - sinks.connected:
        if await sinks.connect(unconnected):
            context.outages.end(KAFKA)
        return True  # A row may be sent by a sink only that has connected before the row was read.
    publisher = Publisher(context, sinks, held)
    await publisher.publish(watermark, rows)
    if len(publisher.waiting) < len(rows):
        context.outages.end(KAFKA)
    is_full = len(found) == MAX_BATCH
    watermark.backlog.end_page(resting, publisher.waiting, found[-1].id + 1 if is_full else None)
    return is_full or have_waited or watermark.backlog.start(sinks.resting) is not None


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


class _NextRows(NamedTuple):
    """Rows of the outbox. `have_waited`: they were read before, and new ones may be there as well."""

    rows: Sequence[OutboxRow | UnreadableRow]
    have_waited: bool


async def _next_rows(
    context: Context, watermark: OutboxWatermark, held: Mapping[int, int], resting: Collection[Place]
) -> _NextRows:
    """New rows; or the rows that waited for a place which does not rest any more, and the ones that were read after them.

    The older rows of a run may be new, too, where a transaction ended late: then a new row of it must not be sent with those.
    """
    if watermark.committed.take_turn(anyio.current_time()):
        watermark.advance_committed(await context.database.autocommit(writers.of_outbox))
    lowest, without = watermark.lower_bound(held), watermark.unreadable
    seen = watermark.backlog.seen_from(lowest)
    if (again := watermark.backlog.start(resting)) is not None:
        waiting = await context.database.autocommit(outbox.next_rows, held, again, MAX_BATCH, without, Seen(lowest, seen))
        return _NextRows(waiting, have_waited=True)
    rows = await context.database.autocommit(outbox.next_rows, held, lowest, MAX_BATCH, without.union(seen))
    watermark.advance(rows[0].id if rows else None)
    return _NextRows(rows, have_waited=False)


class Publisher:
    """Sends rows of the shards `held`, and deletes them when they are acknowledged.

    `waiting`: by row that was not acknowledged, the place that it waits for.
    """

    def __init__(self, context: Context, sinks: OutboxSinks, held: Mapping[int, int]) -> None:
        self._context = context
        self._sinks = sinks
        self._held = held
        self.waiting: dict[int, Place] = {}

    async def publish(self, watermark: OutboxWatermark, rows: Sequence[OutboxRow]) -> None:
        if events := [row for row in rows if row.kind is not Kind.DEAD_LETTER]:
            await self.send_events(watermark, events)
        dead_letters = [row for row in rows if row.kind is Kind.DEAD_LETTER]
        for start in range(0, len(dead_letters), MAX_DEAD_LETTERS):
            await self.send_dead_letters(watermark, dead_letters[start : start + MAX_DEAD_LETTERS])

    async def send_events(self, watermark: OutboxWatermark, rows: Sequence[OutboxRow]) -> None:
        database = self._context.database
        secret = database.memory.secret or await database.run(installation.secret)
        sent = [(row, record) for row in rows for record in records_of(self._context.settings, row, secret)]
        too_large = {row.id for row, record in sent if record_bytes(record) > MAX_SENT_BYTES}
        for id_ in too_large:
            _report(watermark, id_, f"its record is larger than {MAX_SENT_BYTES} bytes")
        if too_large:
            sent = [(row, record) for row, record in sent if row.id not in too_large]
        await self.send([row for row, _ in sent], [record for _, record in sent])

    async def send_dead_letters(self, watermark: OutboxWatermark, rows: Sequence[OutboxRow]) -> None:
        """Load the records and send them; skip dead letters that were deleted, and damaged ones."""
        stored = await self._context.database.run(inbox.whole_dead_letters, [int(row.key) for row in rows])
        sent: list[tuple[OutboxRow, ProducerRecord]] = []
        for row in rows:
            try:
                if (letter := stored.get(int(row.key))) is not None:
                    sent.append((row, _dead_letter(self._context.settings, row, letter)))
            except FATAL:
                raise
            except Exception as error:  # noqa: BLE001 - any error in a stored dead letter concerns its row alone
                _report(watermark, row.id, f"dead letter {row.key} is damaged: {described(error)}")
        await self.send([row for row, _ in sent], [record for _, record in sent])
        await self.delete([row for row in rows if int(row.key) not in stored])

    async def send(self, rows: Sequence[OutboxRow], records: Sequence[ProducerRecord]) -> None:
        """`rows` has the row of each record. A row is deleted when all its records are acknowledged."""
        result = await self._sinks.send_all([row.shard for row in rows], records)
        self.waiting |= {row.id: place for row, place in zip(rows, result.waits, strict=True) if place is not None}
        await self.delete([row for row in rows if row.id not in self.waiting])
        if result.problem is not None:
            raise result.problem

    async def delete(self, rows: Sequence[OutboxRow]) -> None:
        if rows:
            await self._context.database.autocommit(outbox.delete, sorted({row.id for row in rows}), self._held)


def _dead_letter(settings: Settings, row: OutboxRow, letter: DeadLetter) -> ProducerRecord:
    """The record for the dead-letter topic, or for the original topic when it is replayed."""
    if row.is_replay:
        return dead_letter.replay_record(int(row.key), letter)
    topic = settings.topic(Kind.DEAD_LETTER)
    return dead_letter.dead_letter_record(
        topic, int(row.key), letter, event_id=row.event_id, source=PRODUCER_SOURCE, time=row.time
    )


def records_of(settings: Settings, row: OutboxRow, secret: bytes) -> Iterator[ProducerRecord]:
    """The CloudEvents of a row, in binary mode. Dataset events are signed: daemons read them, too."""
    topic, key = settings.topic(row.kind), row.key.encode()
    common = common_headers(row.kind, source=PRODUCER_SOURCE, time=row.time)
    for event_id, payload in row.events():
        headers = with_id(event_id, common)
        if row.kind is Kind.DATASET_UPDATED:
            headers.append((HEADER, signature(secret, event_id, payload)))
        yield ProducerRecord(topic, key, payload, headers)
