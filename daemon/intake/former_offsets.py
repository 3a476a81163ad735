"""The offsets that daemons have stored in Kafka, which tell what a restored or emptied database has forgotten.

Daemons store their positions for lag tools after the transactions that commit them in Postgres, with a note of the installation
and the time. So an offset for a partition that Postgres has never read is one of a former database, and a note that is much later
than the newest commit of the database shows that Postgres was restored. Both hold the database.
"""

from collections.abc import Collection, Mapping
from datetime import datetime

import msgspec

from tidegate.daemon.context import Context
from tidegate.daemon.intake.batches import key_of
from tidegate.daemon.postgres.commit_loss import LACKS, RESTORED_S, hold
from tidegate.daemon.settings import Settings
from tidegate.events.offsets import Stored
from tidegate.events.source import Partition, Source
from tidegate.schemas.queries import idle
from tidegate.schemas.queries.db import Db
from tidegate.schemas.text import utc
from tidegate.schemas.wire.event import INCOMING

EMPTIED = (
    "the database has read nothing, but daemons have read {} up to offset {}: it was emptied, or belongs to another topic prefix"
)


class Note(msgspec.Struct, frozen=True):
    """The installation that has read a partition, with the number of its restores, and until when, by the clock of Postgres."""

    installation: str
    at: datetime


def open_source(settings: Settings) -> Source:
    """The source of all daemons: the offsets that they store have the name of one group."""
    return Source(settings.kafka_servers, security=settings.kafka_security, group=f"{settings.topic_prefix}daemon")


def note_of(context: Context) -> str:
    """The note with the offsets that this daemon stores."""
    detector = context.database.commit_loss
    if detector is None or detector.installation is None:
        return ""
    return msgspec.json.encode(Note(detector.installation.epoch, context.database.clock.known())).decode()


async def refuse_emptied(context: Context) -> None:
    """Hold a database that has read no partition, if daemons have read the topics before. Raises UnavailableError."""
    if await context.database.run(idle.positions):
        return
    async with open_source(context.settings) as source:
        for kind in INCOMING:
            partitions = await led_partitions(source, context.settings.topic(kind))
            for partition, (offset, note) in (await source.committed(partitions) if partitions else {}).items():
                if offset > 0 or note:
                    await _hold(context, EMPTIED.format(key_of(partition), offset), None)


async def refuse_outdated(context: Context, source: Source, positions: Mapping[Partition, int]) -> None:
    """Hold a database that lacks what it had committed when daemons stored their offsets. Raises UnavailableError."""
    for partition, stored in (await source.committed(positions.keys()) if positions else {}).items():
        if stored.offset > positions[partition] and (until := _outdated(context, stored)) is not None:
            await _hold(context, LACKS.format(*map(utc, until)), until[0])


def _outdated(context: Context, stored: Stored) -> tuple[datetime, datetime] | None:
    """The time of the commits that the database lacks, if it is more than a standby lacks."""
    detector = context.database.commit_loss
    if detector is None or detector.installation is None or detector.newest_commit is None:
        return None
    note = note_from(stored.note)
    if note is None or note.installation != detector.installation.epoch:
        return None
    return (detector.newest_commit, note.at) if (note.at - detector.newest_commit).total_seconds() > RESTORED_S else None


def note_from(text: str) -> Note | None:
    """The note with an offset; None for one of a former version, or of another program."""
    try:
        return msgspec.json.decode(text, type=Note)
    except msgspec.DecodeError:
        return None


async def led_partitions(source: Source, topic: str) -> Collection[Partition]:
    """The partitions of a topic that have a leader; none of a topic that does not exist. Raises UnavailableError."""
    return [Partition(topic, number) for number, is_led in (await source.has_leader(topic)).items() if is_led]


async def _hold(context: Context, reason: str, lost_since: datetime | None) -> None:
    """Hold the database, and connect again, which is refused from now on. Raises UnavailableError."""

    async def held(db: Db) -> None:
        await hold(db.connection, reason, lost_since)

    await context.database.run(held)
    await context.database.reconnect()
    await context.database.run(idle.positions)
