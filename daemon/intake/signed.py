"""Refuses the records of other senders that claim to be the events of tasks, which daemons sign.

A former version does not sign. So the signatures of a partition count from the offset where it ends when daemons of this version
alone live; records before are its history.
"""

from collections.abc import Collection, Mapping

import msgspec

from tidegate.daemon.context import Context
from tidegate.daemon.intake.batches import ReadRecord, key_of
from tidegate.events.signature import is_signed
from tidegate.events.source import Partition, Source
from tidegate.schemas.error import RejectedError
from tidegate.schemas.message import Message
from tidegate.schemas.queries import installation, leases
from tidegate.schemas.wire.event import PRODUCER_SOURCE, Rejection

UNSIGNED = f"it has the source {PRODUCER_SOURCE!r} of the events of tasks, and no daemon of this installation signed it"


class Signatures(msgspec.Struct, frozen=True):
    """The secret of the installation, and from which offset on each partition is signed, by (topic, number)."""

    secret: bytes
    since: Mapping[tuple[str, int], int]

    def checked(self, read: ReadRecord) -> ReadRecord:
        """The record, rejected if it has the source of Tidegate and lacks the signature."""
        record, reading = read.record, read.reading
        if not isinstance(reading, Message) or reading.id is None or reading.id.source != PRODUCER_SOURCE:
            return read
        since = self.since.get((record.topic, record.partition))
        if since is None or record.offset < since or is_signed(self.secret, record.headers, reading.id.id, record.value or b""):
            return read
        return ReadRecord(record, RejectedError(Rejection.UNSIGNED, UNSIGNED))


async def signatures(context: Context, source: Source, partitions: Collection[Partition]) -> Signatures:
    """The signatures of these partitions, which count from now on where they can and did not. Raises UnavailableError."""
    keys = {key_of(partition): partition for partition in partitions}
    since = await context.database.run(leases.signed_from, list(keys))
    if new := [keys[key] for key, offset in since.items() if offset is None]:
        ends = {key_of(partition): bounds.end for partition, bounds in (await source.bounds(new)).items()}
        await context.database.run(leases.sign_from, ends)
        since = await context.database.run(leases.signed_from, list(keys))
    secret = await context.database.run(installation.secret)
    return Signatures(secret, {keys[key]: offset for key, offset in since.items() if offset is not None})
