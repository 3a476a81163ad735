"""Resume a halted partition at another offset: what the command line, the API and the pages share.

Slow to import: a Kafka client.
"""

import math
from typing import NamedTuple

import anyio
import msgspec

from tidegate.daemon.intake.batches import partition_of, position_source
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.settings import Settings
from tidegate.events.source import Bounds, Source
from tidegate.schemas.error import POSTGRES, NotFoundError, RequestError, UnavailableError
from tidegate.schemas.queries import inbox, leases
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import Incident

TIMEOUT_S = 5.0
REQUEST_S = 30.0
"""How long a request of the API or a page forgets ids."""

PORTION = 5_000
"""The ids of one transaction: each may be on a page of its own, which is read from the disk."""

DIGITS = 19
"""The digits of the longest offset. Python converts no number of thousands of digits."""

NO_KAFKA = "TIDEGATE_KAFKA_SERVERS is not set for the web server, which has to ask Kafka for the offsets"


class OffsetError(RequestError):
    """The partition cannot be resumed at this offset; the message says which ones there are."""


class BackwardsError(RequestError):
    """An earlier offset needs to be told apart: a new topic, or the same topic without its end."""

    def __init__(self, stood_at: int, offset: int) -> None:
        super().__init__(
            f"from {stood_at} back to {offset}: say whether the topic was created again, so that records without an id count"
            " as new, or lost its end, so that records read before have no effect twice"
        )
        self.stood_at = stood_at
        self.offset = offset


class Halted(NamedTuple):
    """A halted partition, and the range of its log now."""

    incident: Incident
    bounds: Bounds

    def offset(self, at: str) -> int:
        """The offset of `earliest`, `latest` or a number. Raises OffsetError for one outside the log."""
        start, end = self.bounds
        named = {"earliest": start, "latest": end}
        if at in named:
            return named[at]
        if not (at.isascii() and at.isdecimal() and len(at) <= DIGITS and start <= int(at) <= end):
            raise OffsetError(f"write earliest, latest, or {start} to {end}")
        return int(at)


class Resumed(msgspec.Struct, frozen=True):
    """A partition that continues at `next_offset` instead of `stood_at`."""

    partition: str
    stood_at: int
    next_offset: int


async def find_halted(database: Database, settings: Settings, partition: str) -> Halted:
    """Raises NotFoundError for a partition that is not halted, UnavailableError while Kafka is away.

    Without an address of Kafka it raises RequestError.
    """
    if not settings.kafka_servers:
        raise RequestError(NO_KAFKA)
    place = partition_of(partition)
    for incident in await database.run(leases.incidents):
        if incident.partition == partition and place is not None:
            async with Source(settings.kafka_servers, security=settings.kafka_security, timeout_s=TIMEOUT_S) as source:
                return Halted(incident, (await source.bounds([place]))[place])
    raise NotFoundError(f"{partition!r} is not halted; `tidegate topics halted` shows the partitions that are")


async def resume(
    database: Database, user: str, halted: Halted, at: str, *, is_new: bool | None, within_s: float = math.inf
) -> Resumed:
    """Continue a halted partition, and write the audit log.

    `is_new`: the topic was created again, so that records without an id count as new. Raises OffsetError, BackwardsError for an
    earlier offset without it, and RequestError for a partition that was resumed meanwhile. Raises UnavailableError if the ids of
    the former topic take more than `within_s`; a repeat goes on with the rest.
    """
    incident, offset = halted.incident, halted.offset(at)
    if offset < incident.next_offset and is_new is None:
        raise BackwardsError(incident.next_offset, offset)
    if is_new:
        await _forget(database, incident, anyio.current_time() + within_s)
    if not await database.run(leases.resume, incident, offset, user):
        raise RequestError(f"{incident.partition} was resumed meanwhile; `tidegate topics halted` shows whether it halted again")
    return Resumed(incident.partition, incident.next_offset, offset)


async def _forget(database: Database, incident: Incident, until: float) -> None:
    """Forget the ids of a halted partition, in portions: no daemon reads it, so a part is harmless."""
    last = ("", "")
    while (forgotten := await database.run(_forget_portion, incident, last)) is not None:
        last = forgotten
        if anyio.current_time() > until:
            message = f"the ids of {incident.partition} are too many to forget at once; repeat the request to forget the rest"
            raise UnavailableError(message, server=POSTGRES)


async def _forget_portion(db: Db, incident: Incident, after: tuple[str, str]) -> tuple[str, str] | None:
    if not await leases.lock_halted(db, incident):
        return None
    return await inbox.forget_portion(db, position_source(incident.partition), after, PORTION)


def consequence(stood_at: int, offset: int, *, is_new: bool) -> str:
    """The effect of the new offset on records, in words."""
    if offset > stood_at:
        return f"offsets {stood_at} to {offset - 1} are skipped"
    repeated = "records without an id count as new" if is_new else "records read before have no effect twice"
    return f"it was halted at {stood_at}: {repeated}"
