"""Reads the topics of a held installation, whose daemons read and write nothing, up to their present ends.

Slow to import: a Kafka client.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime

from tidegate.daemon.intake.former_offsets import led_partitions
from tidegate.events.source import Bounds, Partition, Record, Source, UnreadableBatchError

FETCH_S, FETCH_RECORDS = 1.0, 5_000


async def bounds_of(source: Source, topic: str) -> Mapping[Partition, Bounds]:
    """The logs of the partitions of a topic that have a leader; empty without the topic. Raises UnavailableError."""
    partitions = await led_partitions(source, topic)
    return await source.bounds(partitions) if partitions else {}


async def starts_at(source: Source, bounds: Mapping[Partition, Bounds], since: datetime | None) -> Mapping[Partition, int]:
    """The first offset of each partition with a record at this time or later, else its end; the oldest offset without a time."""
    if since is None or not bounds:
        return {partition: start for partition, (start, _) in bounds.items()}
    found = await source.offsets_at(bounds.keys(), since)
    return {partition: found.get(partition, end) for partition, (_, end) in bounds.items()}


async def records(
    source: Source, starts: Mapping[Partition, int], bounds: Mapping[Partition, Bounds]
) -> AsyncIterator[Sequence[Record]]:
    """The records of each partition from its start, or the oldest one that it still has, to its end.

    Records that cannot be decoded are passed over: `tidegate topics halted` tells of them once daemons read. Raises
    UnavailableError.
    """
    positions = {p: max(starts.get(p, start), start) for p, (start, _) in bounds.items()}
    left = {p for p, (_, end) in bounds.items() if positions[p] < end}
    while left:
        behind: dict[Partition, int] = {}
        source.assign({p: positions[p] for p in left})
        while not (done := {p for p, offset in source.positions().items() if offset >= bounds[p].end}):
            try:
                fetched = await source.fetch(FETCH_S, FETCH_RECORDS)
            except UnreadableBatchError as error:
                behind[error.partition] = error.next_offset
                done = {error.partition} if error.next_offset >= bounds[error.partition].end else set()
                break
            if not fetched:
                done = {p for p, lag in (await source.lag()).items() if lag == 0}
                break
            yield [
                record for found in fetched.values() for record in found if record.offset < bounds[Partition(*_of(record))].end
            ]
        positions |= {**source.positions(), **behind}
        left -= done


def _of(record: Record) -> tuple[str, int]:
    return record.topic, record.partition
