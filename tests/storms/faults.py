"""Seeded faults: each takes away one of the things that keep an effect from being lost or doubled.

A storm that does not see them sees nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace as replaced

from tests.storms.replace import replace, without
from tidegate.daemon import supervisor
from tidegate.daemon.duties import relay
from tidegate.daemon.duties.dispatch import Dispatcher
from tidegate.daemon.idle import Until
from tidegate.daemon.settings import Settings
from tidegate.events.sink import ProducerRecord
from tidegate.schemas.message import Message
from tidegate.schemas.queries import dags, datasets, inbox, sources
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.inbox import Identity, OffsetMove
from tidegate.schemas.queries.outbox import OutboxRow
from tidegate.schemas.run import ConsumedEvent
from tidegate.schemas.wire.event import DatasetUpdated

log = structlog.get_logger()


def offset_not_compared() -> None:
    """A batch moves the offsets to its end, wherever they stand."""
    for statement in ("record_batch", "move_offsets"):
        without(inbox, statement, "AND lease.next_offset = batch.expected")


def queue_rows_not_locked() -> None:
    """Two daemons decide about one DAG at the same time."""
    without(dags, "lock", "FOR NO KEY UPDATE")


def outbox_deleted_before_ack() -> None:
    """Outbox rows are deleted before Kafka acknowledges them."""

    async def send(publisher: relay.Publisher, rows: Sequence[OutboxRow], messages: Sequence[ProducerRecord]) -> None:
        await publisher.delete(rows)
        if problem := (await publisher._sinks.send_all([row.shard for row in rows], messages)).problem:
            raise problem

    replace(relay.Publisher, "send", send)


def submit_without_find() -> None:
    """A submit that may have happened is simply repeated."""
    replace(Dispatcher, "resolve", Dispatcher.submit)


def queue_emptied_by_dag() -> None:
    """A run deletes every queue row of its DAG, also rows that it has not consumed."""
    without(datasets, "consume", "AND dataset_event_id = consumed.dataset_event_id")


def settings_told() -> None:
    """A daemon says how it was started."""
    started = supervisor.run

    async def run(settings: Settings, until: Until) -> None:
        log.info("starting", settings=msgspec.to_builtins(settings, enc_hook=str))
        await started(settings, until)

    replace(supervisor, "run", run)


def extras_reversed() -> None:
    """Each event of a batch gets what another one says."""

    async def record(db: Db, messages: Sequence[Message[DatasetUpdated]]) -> datasets.Recorded:
        others = [message.body.extra for message in reversed(messages)]
        recorded: datasets.Recorded = await before(
            db,
            [replaced(each, body=replaced(each.body, extra=extra)) for each, extra in zip(messages, others, strict=True)],
        )
        return recorded

    before = replace(datasets, "record", record)


def arrival_taken_for_occurrence() -> None:
    """An event occurred when it arrived."""

    async def record(db: Db, messages: Sequence[Message[DatasetUpdated]]) -> datasets.Recorded:
        recorded: datasets.Recorded = await before(db, [replaced(each, at=db.now) for each in messages])
        return recorded

    before = replace(datasets, "record", record)


def sources_not_told_apart() -> None:
    """An event is known when another source sent its id."""

    async def record_batch(
        db: Db, moves: Sequence[OffsetMove], ids: Sequence[Identity], _contents: Sequence[int | None] = ()
    ) -> set[Identity]:
        anyone = sorted({replaced(each, source="") for each in ids})
        known = await before(db, moves, anyone)
        return {each for each in ids if replaced(each, source="") in known}

    before = replace(inbox, "record_batch", record_batch)


def extras_not_given() -> None:
    """Tasks do not get what events say."""

    def event(*columns: Any) -> ConsumedEvent:
        given: ConsumedEvent = before(*columns)
        return replaced(given, extra={})

    before = replace(sources, "_event", event)


def letters_deleted_before_sent() -> None:
    """Dead letters are in Postgres only."""

    async def send_dead_letters(publisher: relay.Publisher, _watermark: object, rows: Sequence[OutboxRow]) -> None:
        await publisher.delete(rows)

    replace(relay.Publisher, "send_dead_letters", send_dead_letters)


def first_state_repeated() -> None:
    """After some states of a run, the first of them is sent once more."""

    async def send(publisher: relay.Publisher, rows: Sequence[OutboxRow], messages: Sequence[ProducerRecord]) -> None:
        await before(publisher, rows, messages)
        await publisher._sinks.send_all([row.shard for row in rows[:1]], messages[:1])

    before = replace(relay.Publisher, "send", send)


FAULTS: Mapping[str, Callable[[], None]] = {
    fault.__name__: fault
    for fault in (
        offset_not_compared,
        queue_rows_not_locked,
        queue_emptied_by_dag,
        outbox_deleted_before_ack,
        submit_without_find,
        settings_told,
        extras_reversed,
        arrival_taken_for_occurrence,
        sources_not_told_apart,
        extras_not_given,
        letters_deleted_before_sent,
        first_state_repeated,
    )
}
