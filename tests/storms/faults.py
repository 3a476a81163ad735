"""Seeded faults: each takes away one of the things that keep an effect from being lost or doubled.

A storm that does not see them sees nothing.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
import structlog

from tests.storms.replace import replace, without
from tidegate.daemon import supervisor
from tidegate.daemon.duties import relay
from tidegate.daemon.duties.dispatch import Dispatcher
from tidegate.daemon.idle import Until
from tidegate.daemon.settings import Settings
from tidegate.events.sink import OutMessage
from tidegate.schemas.queries import dags, datasets, inbox
from tidegate.schemas.queries.outbox import OutboxRow

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

    async def send(publisher: relay.Publisher, rows: Sequence[OutboxRow], messages: Sequence[OutMessage]) -> None:
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


FAULTS: Mapping[str, Callable[[], None]] = {
    fault.__name__: fault
    for fault in (
        offset_not_compared,
        queue_rows_not_locked,
        queue_emptied_by_dag,
        outbox_deleted_before_ack,
        submit_without_find,
        settings_told,
    )
}
