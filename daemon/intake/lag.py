"""The partitions that daemons read, and how far each of them is behind: Postgres has the positions, Kafka the ends of the logs.

Slow to import: a Kafka client.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from tidegate.daemon.intake.batches import partition_of
from tidegate.daemon.live.log_ranges import Ask, ranges_of
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.settings import Settings
from tidegate.events.source import Bounds, Partition
from tidegate.schemas.queries import system_pages
from tidegate.schemas.queries.system_pages import PartitionLine


class PartitionRow(PartitionLine, frozen=True):
    """A partition with the range of its log. `lag`: the offsets that are not read, with the markers of transactions.

    All three are None for a partition that Kafka does not have, and for one without a leader.
    """

    log_start: int | None = None
    log_end: int | None = None
    lag: int | None = None


async def read_partitions(database: Database, settings: Settings) -> list[PartitionRow]:
    """All partitions in order, for a command. Raises UnavailableError while Kafka is away."""
    return await list_partitions(database, partial(ranges_of, settings))


async def list_partitions(
    database: Database, ask: Ask, *, after: str | None = None, limit: int | None = None
) -> list[PartitionRow]:
    """The partitions by topic and number, those after one. Raises UnavailableError while Kafka is away."""
    lines = await database.run(system_pages.partitions, after=after, limit=limit)
    places = [place for line in lines if (place := partition_of(line.partition)) is not None]
    return with_ranges(lines, await ask(places))


def with_ranges(lines: Sequence[PartitionLine], ranges: Mapping[Partition, Bounds]) -> list[PartitionRow]:
    """The partitions with the ranges that are known."""
    return [_row(line, ranges.get(place) if (place := partition_of(line.partition)) else None) for line in lines]


def _row(line: PartitionLine, bounds: Bounds | None) -> PartitionRow:
    known = msgspec.structs.asdict(line)
    if bounds is None:
        return PartitionRow(**known)
    return PartitionRow(**known, log_start=bounds.start, log_end=bounds.end, lag=max(0, bounds.end - line.next_offset))
