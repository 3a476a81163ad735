"""Steps over a record that stays too slow for Postgres: it becomes a dead letter, and its partition goes on behind it.

What the command line and the API share. Slow to import: a Kafka client.
"""

import msgspec

from tidegate.daemon.intake.batches import dead_letter_of, partition_of
from tidegate.daemon.intake.resumption import NO_KAFKA, TIMEOUT_S
from tidegate.daemon.intake.unread import outage_of, waits_at
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.request import notify_daemons
from tidegate.daemon.settings import Settings
from tidegate.daemon.work import Work
from tidegate.events.source import OffsetOutOfRangeError, Partition, Record, Source
from tidegate.schemas.error import NotFoundError, RequestError
from tidegate.schemas.queries import idle, inbox, leases, outbox
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import StepOver
from tidegate.schemas.queries.unit_of_work import UnitOfWork
from tidegate.schemas.wire.event import Rejection


class SteppedOver(msgspec.Struct, frozen=True):
    """A record that is a dead letter now, and the offset at which its partition goes on.

    `dead_letter` is None for a record that was a dead letter before: an earlier offset has been read again since.
    """

    partition: str
    offset: int
    next_offset: int
    dead_letter: int | None


async def step_over(database: Database, settings: Settings, user: str, partition: str, offset: int, because: str) -> SteppedOver:
    """Store the record as a dead letter and move the partition behind it, in one transaction that writes the audit log.

    Raises NotFoundError for a record that no daemon waits with, RequestError for one that was applied or stepped over meanwhile,
    and without an address of Kafka; UnavailableError while Kafka is away.
    """
    step, place = await database.run(_planned, partition, offset)
    record = await _record_at(settings, place, step.stood_at)
    if record is None or record.offset != offset:
        raise _moved(step)
    letter = dead_letter_of(record, Rejection.UNPROCESSABLE, f"{user} stepped over it, which was too slow: {because}")

    async def store(db: Db) -> int | None:
        if not await leases.step_over(db, step, user, because):
            raise _moved(step)
        stored = await inbox.insert_dead_letters(db, [letter])
        unit = UnitOfWork(db, None, database.author, database.writer)
        await outbox.announce(unit, stored)
        await unit.flush()
        return stored[0].id if stored else None

    id_ = await database.run(store)
    await notify_daemons(database, Work.RELAY)
    return SteppedOver(partition, offset, step.next_offset, id_)


async def _planned(db: Db, partition: str, offset: int) -> tuple[StepOver, Partition]:
    """The step over the record that a live daemon waits with. Raises NotFoundError."""
    place, positions = partition_of(partition), await idle.positions(db)
    away = [daemon.away.get(outage_of(partition)) for daemon in await leases.live(db)]
    if place is None or partition not in positions or not any(it and it.error.startswith(waits_at(offset)) for it in away):
        says = f"no daemon waits with the record at offset {offset} of {partition!r}"
        raise NotFoundError(f"{says}; `tidegate doctor` names the records that are too slow")
    return StepOver(partition, positions[partition], offset, offset + 1), place


async def _record_at(settings: Settings, place: Partition, position: int) -> Record | None:
    """The next record of a partition; None if there is none."""
    if not settings.kafka_servers:
        raise RequestError(NO_KAFKA)
    try:
        async with Source(settings.kafka_servers, security=settings.kafka_security, timeout_s=TIMEOUT_S) as source:
            source.assign({place: position})
            return next(iter((await source.fetch(TIMEOUT_S, 1)).get(place, ())), None)
    except OffsetOutOfRangeError as error:
        raise RequestError(str(error)) from error


def _moved(step: StepOver) -> RequestError:
    return RequestError(f"the record at offset {step.offset} of {step.partition} is not the next one any more: it has been read")
