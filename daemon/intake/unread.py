"""Leased partitions that are not read: each is an outage of its own, and the daemon reads the others.

Kafka cannot deliver a partition, or its next record is too slow for Postgres alone.
No dataset event is read before the DAG folder.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import anyio
import structlog

from tidegate.daemon.context import Context
from tidegate.daemon.outage import Outages, ReportedOutages, Retry
from tidegate.events.source import Partition
from tidegate.schemas.error import UNREAD, LockedError, TooSlowError
from tidegate.schemas.queries import installation
from tidegate.schemas.queries.leases import Lease

log = structlog.get_logger()

FIRST_PAUSE_S, LONGEST_PAUSE_S = 15.0, 600.0
"""Each try of a record that is too slow takes some 10 s, in which the daemon applies no other record of the topic."""

FILES_READ_EVERY_S = 0.1

LOCKED_PAUSE_S = 1.0
"""The pause of a record that needs a row which another session holds. A try of it is short."""


async def files_read(context: Context) -> None:
    """Return when the DAG folder has been read once: an event that comes before the DAGs of a new database starts no run."""
    retry, is_told = Retry(context.outages, ends_outages=True), False
    while not await retry.until_done(context.database.autocommit, installation.files_are_read):
        if not is_told:
            log.info("intake_waits", hint="dataset events are read once the DAG folder has been read")
        is_told = True
        await anyio.sleep(FILES_READ_EVERY_S)


def outage_of(partition: str) -> str:
    """The name of the outage of a partition, given as the key of its lease."""
    return f"{UNREAD}{partition}"


def waits_at(offset: int) -> str:
    """How the reason begins for which a partition waits with this record."""
    return f"the record at offset {offset} waits for another try: "


class SlowRecord(NamedTuple):
    """A record that was too slow alone, and the time of its next try."""

    offset: int
    pause_s: float
    until: float
    error: TooSlowError


class SlowPartitions:
    """The partitions of a topic whose next record was too slow alone: each is left out for a while, and then tried again.

    The pause doubles as long as other records of the topic are applied in between. Otherwise Postgres may be too slow for any.
    """

    def __init__(self, clock: Callable[[], float] = anyio.current_time) -> None:
        self._clock = clock
        self._records: dict[Partition, SlowRecord] = {}
        self._last: Partition | None = None

    @property
    def partitions(self) -> frozenset[Partition]:
        """The slow partitions, also while they are tried again."""
        return frozenset(self._records)

    @property
    def left_out(self) -> frozenset[Partition]:
        """The slow partitions whose pause lasts."""
        now = self._clock()
        return frozenset(partition for partition, record in self._records.items() if record.until > now)

    @property
    def reasons(self) -> Mapping[Partition, str]:
        """Why they are left out, also while they are tried again."""
        return {partition: _slow(partition, record) for partition, record in self._records.items()}

    def keep(self, leased: Mapping[Partition, Lease]) -> None:
        """Forget the partitions that another daemon has, and each whose record was stepped over."""
        self._records = {
            partition: record
            for partition, record in self._records.items()
            if partition in leased and (leased[partition].next_offset or 0) <= record.offset
        }

    def leave_out(self, partition: Partition, offset: int, error: TooSlowError) -> None:
        """Leave a partition out, whose record at `offset` is too slow alone.

        Raises the error if the last record of another partition was too slow as well, and none was applied since.
        """
        if isinstance(error, LockedError):
            self._records[partition] = SlowRecord(offset, LOCKED_PAUSE_S, self._clock() + LOCKED_PAUSE_S, error)
            return
        if self._last not in {None, partition}:
            raise error
        pause_s = self._next_pause_s(partition, offset)
        self._records[partition] = SlowRecord(offset, pause_s, self._clock() + pause_s, error)
        self._last = partition

    def _next_pause_s(self, partition: Partition, offset: int) -> float:
        before = self._records.get(partition)
        if before is None or before.offset != offset:
            return FIRST_PAUSE_S
        return min(2 * before.pause_s, LONGEST_PAUSE_S) if self._last is None else before.pause_s

    def applied(self, partitions: Iterable[Partition]) -> None:
        """The next records of these partitions were applied."""
        self._last = None
        for partition in partitions:
            self._records.pop(partition, None)


class UnreadPartitions:
    """The outages of the partitions of a topic, and the slow ones. They last across connections to Kafka."""

    def __init__(self, outages: Outages, topic: str) -> None:
        self.slow = SlowPartitions()
        self._reported = ReportedOutages(outages, outage_of(f"{topic}/"))

    def __bool__(self) -> bool:
        return bool(self._reported)

    def report(self, reasons: Mapping[Partition, str]) -> None:
        """Start the outages of these partitions, and end those of all others."""
        self._reported.report({str(partition.partition): reason for partition, reason in reasons.items()})


def _slow(partition: Partition, record: SlowRecord) -> str:
    if isinstance(record.error, LockedError):
        return f"{waits_at(record.offset)}{record.error}"
    step = f"tidegate topics skip {shlex.quote(f'{partition.topic}/{partition.partition}')} --offset {record.offset}"
    return f"{waits_at(record.offset)}{record.error}; `{step}` makes it a dead letter"


def unread(leased: Iterable[Partition], has_leader: Mapping[int, bool]) -> Mapping[Partition, str]:
    """The leased partitions of a topic that cannot be read, and why. `has_leader` is by number, for the partitions in Kafka."""
    return {partition: _reason(partition, has_leader) for partition in leased if not has_leader.get(partition.partition)}


def _reason(partition: Partition, has_leader: Mapping[int, bool]) -> str:
    if partition.partition in has_leader:
        return "the partition has no leader: its records wait until a broker with a replica of it is back"
    return (
        f"Kafka has no such partition: {partition.topic} was created again with fewer;"
        f" add partitions until it has {partition.partition + 1}"
    )
