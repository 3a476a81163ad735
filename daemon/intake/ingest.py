"""Ingest: applies the records of Kafka in batches and commits their offsets in the same transaction.

One loop per topic reads the next batch while Postgres applies the last one. Positions come from the leases in Postgres and are
loaded again after each failure. A commit with an unknown outcome needs no special case: if it succeeded, the offsets have moved.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import structlog
from anyio.abc import TaskStatus

from tidegate.daemon.containment import NOT_CONTAINED, apply_substitutes, bisect
from tidegate.daemon.context import Context
from tidegate.daemon.engine import Applied, Batch
from tidegate.daemon.fault_log import faults
from tidegate.daemon.intake.batches import (
    PartitionBatch,
    ReadRecord,
    batch_of,
    key_of,
    partitions_of,
    read,
    reject,
    split,
    tried_alone,
)
from tidegate.daemon.intake.former_offsets import note_of, open_source, refuse_outdated
from tidegate.daemon.intake.signed import Signatures, signatures
from tidegate.daemon.intake.unknown_datasets import reject_unknown_datasets
from tidegate.daemon.intake.unread import UnreadPartitions, files_read, unread
from tidegate.daemon.leases import register, renew
from tidegate.daemon.outage import STEADY_S, Backoff
from tidegate.events.source import (
    OffsetOutOfRangeError,
    Partition,
    Record,
    Source,
    UnreadableBatchError,
)
from tidegate.events.stall_detector import StallDetector
from tidegate.schemas.error import KAFKA, FencedError, LockedError, RejectedError, TooSlowError, UnavailableError, described
from tidegate.schemas.message import Message
from tidegate.schemas.queries import idle, leases
from tidegate.schemas.queries.leases import PARTITION, Incident, Lease, LeaseSpec
from tidegate.schemas.wire.event import Kind, Rejection

log = structlog.get_logger()

FETCH_S = 0.5
DISCOVER_EVERY_S = 60.0
DISCOVER_UNREAD_EVERY_S = 2.0
BACKLOG = 100
"""Batches of at least this many records are applied while the next one is read: smaller ones are slower in parallel."""

GATHER_S = {Kind.TASK_FINISHED: 0.005}
"""Pause after a batch, so that the next one is larger. It delays no single run: its next task takes longer to start and end."""

DECODE_AT_ONCE = 100
"""Records decoded without yielding to the event loop: 1 to 2 ms."""

FAST_S = 1.0
"""A full batch that takes less may be followed by a larger one."""

Records = Mapping[Partition, Sequence[ReadRecord]]
Enrich = Callable[[Sequence[Message[Any]]], Awaitable[Sequence[Message[Any]]]]


async def unchanged(messages: Sequence[Message[Any]]) -> Sequence[Message[Any]]:
    """The messages as they are."""
    return messages


async def ingest(kind: Kind, context: Context, *, enrich: Enrich = unchanged, task_status: TaskStatus[None]) -> None:
    """Ingest the leased partitions of a topic, for ever; reconnect after outages of Kafka and Postgres."""
    backoff, size = Backoff(), BatchSize(context.settings.batch_records)
    unread_partitions = UnreadPartitions(context.outages, context.settings.topic(kind))
    task_status.started()
    if kind is Kind.DATASET_UPDATED:
        await files_read(context)
    while True:
        try:
            with context.outages.reporting():
                async with open_source(context.settings) as source:
                    context.outages.end(KAFKA)
                    await Reader(kind, context, source, enrich, size, unread_partitions).run(backoff)
        except FencedError:
            log.info("batch_fenced", topic=context.settings.topic(kind))
        await backoff.pause()
        with context.outages.reporting():
            await renew(context.database, context.held_leases, context.outages.away)  # reloads the offsets


class BatchSize:
    """The greatest number of records of a batch: less after one that was too slow, more after a full one that was fast."""

    def __init__(self, most: int) -> None:
        self.most = self.records = most

    def shrink(self, count: int) -> None:
        """A batch of `count` records was too slow."""
        self.records = max(1, min(self.records, count // 2))

    def grow(self, count: int, took_s: float) -> None:
        """A batch of `count` records took this long."""
        if took_s < FAST_S and count >= self.records:
            self.records = min(self.most, self.records * 2)


class NextRecords:
    """The records of the next batch, or why there are none."""

    def __init__(self) -> None:
        self.records: Records = {}
        self.problem: OffsetOutOfRangeError | UnavailableError | None = None


class Reader:
    """Reads through one connection to Kafka until the first failure."""

    def __init__(
        self, kind: Kind, context: Context, source: Source, enrich: Enrich, size: BatchSize, unread_partitions: UnreadPartitions
    ) -> None:
        self.kind = kind
        self.context = context
        self.source = source
        self.enrich = enrich
        self.size = size
        self.unread_partitions = unread_partitions
        self.topic = context.settings.topic(kind)
        self.owned: Mapping[Partition, Lease] = {}
        self.positions: dict[Partition, int] = {}
        self.last_positions: dict[Partition, tuple[int, int]] = {}
        self.has_leader: Mapping[int, bool] = {}
        self.discovered_at = float("-inf")
        self.has_left_out, self.signatures = False, Signatures(b"", {})
        self.stall_detector, self.takeovers = StallDetector(), context.takeovers

    async def run(self, backoff: Backoff) -> None:
        """Raises UnavailableError or FencedError; then the positions have to be loaded again."""
        with self.context.measurements.reading(self.topic, self._lag):
            await self._read(backoff)

    async def _read(self, backoff: Backoff) -> None:
        upcoming: Records = {}
        began = anyio.current_time()
        while self.takeovers == self.context.takeovers:
            await self._discover()
            if self._assign():
                upcoming = {}  # the source reads again from the leased offsets
            if self.positions:
                has_committed = bool(upcoming)
                upcoming = await self._commit_and_read(upcoming)
                if has_committed or anyio.current_time() - began > STEADY_S:
                    backoff.reset()  # a read proves nothing about Postgres
            else:
                await anyio.sleep(min(FETCH_S, self.context.settings.lease_renew_s))
        raise FencedError("another server of Postgres took over")

    def _lag(self) -> Mapping[int, int]:
        """By the number of the partition."""
        return {partition.partition: lag for partition, lag in self.source.known_lag(self.positions).items()}

    async def _commit_and_read(self, records: Records) -> Records:
        """Apply `records` and return the next ones; both in parallel when there is a backlog."""
        upcoming = NextRecords()
        if sum(map(len, records.values())) < BACKLOG:
            await self._commit(self._partition_batches(records))
            await anyio.sleep(GATHER_S.get(self.kind, 0.0) if records else 0.0)
            await self._read_next(upcoming)
        else:
            await self._commit_while_reading(records, upcoming)
        if isinstance(upcoming.problem, OffsetOutOfRangeError | UnreadableBatchError):
            await self._halt(upcoming.problem)
        elif upcoming.problem is not None:
            raise upcoming.problem
        await self.source.commit(self.positions, note_of(self.context))
        await self.stall_detector.check(self.source)
        return upcoming.records

    async def _commit_while_reading(self, records: Records, upcoming: "NextRecords") -> None:
        """Decode the next records while Postgres applies these."""
        failure: UnavailableError | FencedError | None = None
        async with anyio.create_task_group() as tg:
            tg.start_soon(self._read_next, upcoming)
            try:
                await self._commit(self._partition_batches(records))
            except (UnavailableError, FencedError) as error:
                failure = error
                tg.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _read_next(self, upcoming: "NextRecords") -> None:
        try:
            fetched = await self.source.fetch(FETCH_S, self.size.records)
        except (OffsetOutOfRangeError, UnavailableError) as error:
            upcoming.problem = error
            return
        if fetched:
            self.context.outages.end(KAFKA)
            upcoming.records = {partition: await self._decode(records) for partition, records in fetched.items()}

    async def _decode(self, records: Sequence[Record]) -> list[ReadRecord]:
        """Yields to the event loop between slices, because decoding many records takes long."""
        read_records: list[ReadRecord] = []
        for start in range(0, len(records), DECODE_AT_ONCE):
            some = [read(self.kind, record) for record in records[start : start + DECODE_AT_ONCE]]
            read_records += map(self.signatures.checked, some) if self.signatures.since else some
            await anyio.lowlevel.checkpoint()
        return read_records

    async def _discover(self) -> None:
        """Register the new partitions of the topic that have a leader; each starts at its oldest record."""
        every_s = DISCOVER_UNREAD_EVERY_S if self.unread_partitions else DISCOVER_EVERY_S
        if anyio.current_time() < self.discovered_at + every_s and not self.source.leaderless():
            return
        self.has_leader = await self.source.has_leader(self.topic)
        if not self.has_leader:
            raise UnavailableError(f"Kafka has no topic {self.topic}; create it with `tidegate topics create`")
        known = await self.context.database.run(idle.positions)
        led = [Partition(self.topic, number) for number, has_leader in self.has_leader.items() if has_leader]
        if self.discovered_at == float("-inf") and self.takeovers == 0:
            await refuse_outdated(self.context, self.source, {p: known[key_of(p)] for p in led if key_of(p) in known})
        await self._register([partition for partition in led if key_of(partition) not in known])
        if self.kind is Kind.DATASET_UPDATED:
            self.signatures = await signatures(self.context, self.source, led)
        self.discovered_at = anyio.current_time()

    async def _register(self, partitions: Sequence[Partition]) -> None:
        if partitions:
            bounds = await self.source.bounds(partitions)
            await register(self.context.database, [LeaseSpec(PARTITION, key_of(p), bounds[p].start) for p in partitions])

    def _assign(self) -> bool:
        """Assign the leased partitions to the source, without the unread ones. Returns whether they changed.

        A partition keeps its position while its lease epoch is the same; others start at the offset of the lease.
        """
        owned = self._readable(partitions_of(self.topic, self.context.held_leases.of(PARTITION)))
        is_same = {p: lease.epoch for p, lease in owned.items()} == {p: lease.epoch for p, lease in self.owned.items()}
        if is_same and not self.has_left_out:
            return False
        self.has_left_out = False
        self.last_positions |= {p: (lease.epoch, self.positions[p]) for p, lease in self.owned.items() if p in self.positions}
        self.positions = {p: _position(lease, self.last_positions.get(p)) for p, lease in owned.items()}
        self.owned = owned
        self.source.assign(self.positions)
        return True

    def _readable(self, leased: Mapping[Partition, Lease]) -> Mapping[Partition, Lease]:
        """The leased partitions without the unread ones, whose outages are reported."""
        not_read, slow = unread(leased, self.has_leader), self.unread_partitions.slow
        slow.keep(leased)
        self.unread_partitions.report({**slow.reasons, **not_read})
        left_out = not_read.keys() | slow.left_out
        return {partition: lease for partition, lease in leased.items() if partition not in left_out}

    def _partition_batches(self, records: Records) -> list[PartitionBatch]:
        return [
            PartitionBatch(partition, self.owned[partition].epoch, read_records)
            for partition, read_records in records.items()
            if partition in self.positions
        ]

    async def _commit(self, batches: Sequence[PartitionBatch]) -> None:
        """Apply the records; a batch that fails is bisected until the record at fault is alone."""
        if batches:
            with self.context.busy_intake.batch():
                for part in tried_alone(batches, self.unread_partitions.slow.partitions):
                    await bisect(part, self._apply, self._contain, split)

    async def _apply(self, batches: Sequence[PartitionBatch]) -> None:
        """Adapts the size of the next batches. Records of a partition that was left out meanwhile wait."""
        batches = [batch for batch in batches if batch.partition in self.positions]
        count, began = sum(len(batch.records) for batch in batches), anyio.current_time()
        with self._leaving_out(batches):
            if batches:
                await self._apply_records(batches)
                self.size.grow(count, anyio.current_time() - began)
                self._advance(batches)

    @contextmanager
    def _leaving_out(self, batches: Sequence[PartitionBatch]) -> Iterator[None]:
        """Leave out the partition of a single record that is too slow, or needs a row that another session holds.

        The source is assigned anew before the next batch. Raises the TooSlowError of several records.
        """
        try:
            yield
        except TooSlowError as error:
            if not isinstance(error, LockedError):
                self.size.shrink(sum(len(batch.records) for batch in batches))
            if split(batches) is not None:
                raise
            (batch,) = batches
            self.unread_partitions.slow.leave_out(batch.partition, batch.end - 1, error)
            self.last_positions[batch.partition] = batch.epoch, self.positions.pop(batch.partition)
            self.has_left_out = True

    async def _apply_records(self, batches: Sequence[PartitionBatch]) -> None:
        if self.kind is Kind.DATASET_UPDATED and self.context.settings.unknown_datasets == "reject":
            batches = await reject_unknown_datasets(self.context.database, batches)
        batch = batch_of(batches, self.positions)
        await self.context.apply_or_defer(msgspec.structs.replace(batch, messages=await self.enrich(batch.messages)))

    async def _contain(self, batches: Sequence[PartitionBatch], error: Exception) -> None:
        """As `_apply`, for a record whose decision failed."""
        with self._leaving_out(batches):
            await self._store(batches[0], error)
            self._advance(batches)

    async def _store(self, batch: PartitionBatch, error: Exception) -> None:
        """Store what the record brings without the decision that failed; else the record becomes a dead letter."""
        batches = [batch]
        try:
            contained = await self._substituted(batch_of(batches, self.positions), error)
        except NOT_CONTAINED:
            raise
        except Exception as again:  # noqa: BLE001 - the record becomes a dead letter
            faults.report("record_refused", again, topic=self.topic, offset=batch.end - 1)
            contained = False
        if not contained:
            rejected = reject(batch, RejectedError(Rejection.UNPROCESSABLE, described(error)))
            await self.context.apply(batch_of([rejected], self.positions))

    async def _substituted(self, batch: Batch, error: Exception) -> bool:
        """Apply what is left of the messages without the decision that failed; False: nothing is."""

        async def act(messages: Sequence[Message[Any]]) -> Applied:
            return await self.context.apply(msgspec.structs.replace(batch, messages=messages))

        messages = await self.enrich(batch.messages)
        if not messages or await apply_substitutes(self.context.database, messages, error, act) is None:
            return False
        faults.report("decision_failed", error, topic=self.topic)
        return True

    def _advance(self, batches: Sequence[PartitionBatch]) -> None:
        for batch in batches:
            self.positions[batch.partition] = batch.end
        self.unread_partitions.slow.applied(batch.partition for batch in batches)
        self.stall_detector.record_positions(self.positions)

    async def _halt(self, error: OffsetOutOfRangeError | UnreadableBatchError) -> None:
        """Halt the partition until `tidegate topics resume`: its log lacks its offset, or the records there cannot be decoded."""
        if self.positions.pop(error.partition, None) is None:
            return  # it was left out meanwhile: records before this offset wait
        incident = Incident(key_of(error.partition), error.position, error.bounds.start, error.bounds.end)
        await self.context.database.run(leases.halt, self.context.held_leases.job.id, incident)
        log.error("partition_halted", partition=key_of(error.partition), error=str(error), hint="tidegate topics halted")


def _position(lease: Lease, before: tuple[int, int] | None) -> int:
    if before is not None and before[0] == lease.epoch:
        return before[1]
    return lease.next_offset or 0
