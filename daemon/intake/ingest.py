"""Events from Kafka: batches of records into the engine, with the offsets in the same transaction.

One loop per topic, which reads the next batch while Postgres works on the last one. Positions come from the leases in Postgres
and are read again after every failure, so that an unknown outcome needs no special case: if the batch had been taken, the offsets
have moved.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import asyncpg
import msgspec
import structlog
from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.intake.batches import Arrived, Stretch, batch_of, count, halves, key_of, partition_of, read, refused
from tidegate.daemon.intake.unknown_datasets import only_known
from tidegate.daemon.leases import register, renew
from tidegate.daemon.postgres.database import describe
from tidegate.daemon.retry import Backoff
from tidegate.events.source import OffsetOutOfRangeError, Partition, Record, Source
from tidegate.events.stall_detector import StallDetector
from tidegate.schemas.error import FencedError, RejectedError, UnavailableError
from tidegate.schemas.message import Message
from tidegate.schemas.queries import leases
from tidegate.schemas.queries.leases import PARTITION, Duty, Incident, Lease
from tidegate.schemas.wire.event import Kind, Rejection

log = structlog.get_logger()

FETCH_S = 0.5
DISCOVER_EVERY_S = 60.0
REFUSED = (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError, asyncpg.ProgramLimitExceededError)
"""What Postgres says of a record that it will never take."""

BACKLOG = 100
"""From so many records on it pays to read while Postgres works; with fewer, reading would only be in the way."""

GATHER_S = {Kind.TASK_FINISHED: 0.005}
"""So long after a batch what comes next is let gather. A lone run loses nothing: its next task takes longer to begin and end."""

TURN = 100
"""Records that are read in one go: a millisecond or two."""

Arrivals = Mapping[Partition, Sequence[Arrived]]
Enrich = Callable[[Sequence[Message[Any]]], Awaitable[Sequence[Message[Any]]]]


async def unchanged(messages: Sequence[Message[Any]]) -> Sequence[Message[Any]]:
    """Most events are handled as they are."""
    return messages


async def ingest(kind: Kind, context: Context, *, enrich: Enrich = unchanged, task_status: TaskStatus[None]) -> None:
    """For ever: read the partitions of a topic that this daemon owns. Kafka or Postgres may be away at any time."""
    backoff = Backoff()
    task_status.started()
    while True:
        try:
            with context.outages.reporting():
                async with Source(context.settings.kafka_servers, group=f"{context.settings.topic_prefix}daemon") as source:
                    context.outages.end("Kafka")
                    await Reader(kind, context, source, enrich).run(backoff)
        except FencedError:
            log.info("batch_fenced", topic=context.settings.topic(kind))
        await backoff.pause()
        with context.outages.reporting():
            await renew(context.database, context.held_leases, context.outages.away)  # reloads the offsets


class Ahead:
    """What reading on brought: records, or why there are none."""

    def __init__(self) -> None:
        self.arrivals: Arrivals = {}
        self.problem: OffsetOutOfRangeError | UnavailableError | None = None


class Reader:
    """One connection to Kafka and what is read through it, until something fails."""

    def __init__(self, kind: Kind, context: Context, source: Source, enrich: Enrich) -> None:
        self.kind = kind
        self.context = context
        self.source = source
        self.enrich = enrich
        self.topic = context.settings.topic(kind)
        self.owned: Mapping[Partition, Lease] = {}
        self.positions: dict[Partition, int] = {}
        self.discovered_at = float("-inf")
        self.stall_detector, self.takeovers = StallDetector(), context.takeovers

    async def run(self, backoff: Backoff) -> None:
        """Raises UnavailableError or FencedError: the positions are not known any more."""
        ahead: Arrivals = {}
        while self.takeovers == self.context.takeovers:
            await self._discover()
            if self._assign():
                ahead = {}  # the source starts again from where the leases say
            if self.positions:
                ahead = await self._take_and_read_on(ahead)
                backoff.reset()
            else:
                await anyio.sleep(min(FETCH_S, self.context.settings.lease_renew_s))
        raise FencedError("another server of Postgres took over")

    async def _take_and_read_on(self, arrivals: Arrivals) -> Arrivals:
        """Take what has arrived and return what comes next; both at once where there is a backlog."""
        ahead = Ahead()
        if sum(map(len, arrivals.values())) < BACKLOG:
            await self._take(self._stretches(arrivals))
            await anyio.sleep(GATHER_S.get(self.kind, 0.0) if arrivals else 0.0)
            await self._read_on(ahead)
        else:
            await self._take_beside_reading(arrivals, ahead)
        if isinstance(ahead.problem, OffsetOutOfRangeError):
            await self._halt(ahead.problem)
        elif ahead.problem is not None:
            raise ahead.problem
        await self.source.commit(self.positions)
        await self.stall_detector.check(self.source)
        return ahead.arrivals

    async def _take_beside_reading(self, arrivals: Arrivals, ahead: "Ahead") -> None:
        """Python reads while Postgres works."""
        failure: UnavailableError | FencedError | None = None
        async with anyio.create_task_group() as tg:
            tg.start_soon(self._read_on, ahead)
            try:
                await self._take(self._stretches(arrivals))
            except (UnavailableError, FencedError) as error:
                failure = error
                tg.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _read_on(self, ahead: "Ahead") -> None:
        try:
            fetched = await self.source.fetch(FETCH_S, self.context.settings.batch_records)
        except (OffsetOutOfRangeError, UnavailableError) as error:
            ahead.problem = error
            return
        if fetched:
            self.context.outages.end("Kafka")
            ahead.arrivals = {partition: await self._readings(records) for partition, records in fetched.items()}

    async def _readings(self, records: Sequence[Record]) -> list[Arrived]:
        """Reading many records takes a while: let what waits for Postgres have its turn between."""
        arrived = []
        for start in range(0, len(records), TURN):
            arrived += [read(self.kind, record) for record in records[start : start + TURN]]
            await anyio.lowlevel.checkpoint()
        return arrived

    async def _discover(self) -> None:
        """Partitions that nobody knows yet start at the oldest record there is."""
        if anyio.current_time() < self.discovered_at + DISCOVER_EVERY_S:
            return
        partitions = [Partition(self.topic, number) for number in await self.source.partitions_of(self.topic)]
        if not partitions:
            raise UnavailableError(f"Kafka has no topic {self.topic}; `tidegate topics create` makes it")
        bounds = await self.source.bounds(partitions)
        await register(self.context.database, [Duty(PARTITION, key_of(p), bounds[p].start) for p in partitions])
        self.discovered_at = anyio.current_time()

    def _assign(self) -> bool:
        """Read what we own now, from where the leases say; a partition that stays ours goes on where we are.

        Whether that is something else than before.
        """
        held = self.context.held_leases.of(PARTITION)
        owned = {p: lease for key, lease in held.items() if (p := partition_of(key)).topic == self.topic}
        if {p: lease.epoch for p, lease in owned.items()} == {p: lease.epoch for p, lease in self.owned.items()}:
            return False
        before = {p: (lease.epoch, self.positions[p]) for p, lease in self.owned.items() if p in self.positions}
        self.positions = {p: _position(lease, before.get(p)) for p, lease in owned.items()}
        self.owned = owned
        self.source.assign(self.positions)
        return True

    def _stretches(self, arrivals: Arrivals) -> list[Stretch]:
        return [
            Stretch(partition, self.owned[partition].epoch, self.positions[partition], arrived)
            for partition, arrived in arrivals.items()
            if partition in self.positions
        ]

    async def _take(self, stretches: Sequence[Stretch]) -> None:
        """Apply the records; where Postgres refuses them, halve until the one to blame is alone and put aside."""
        if not stretches:
            return
        try:
            await self._apply(stretches)
        except REFUSED as error:
            if count(stretches) == 1:
                await self._put_aside(stretches[0], error)
                return
            log.warning("batch_bisected", topic=self.topic, records=count(stretches), error=str(error))
            for half in halves(stretches):
                await self._take([self._moved_up(stretch) for stretch in half])

    async def _apply(self, stretches: Sequence[Stretch]) -> None:
        if self.kind is Kind.DATASET_UPDATED and self.context.settings.unknown_datasets == "reject":
            batch = batch_of(await only_known(self.context.database, stretches))
        else:
            batch = batch_of(stretches)
        await self.context.apply(msgspec.structs.replace(batch, messages=await self.enrich(batch.messages)))
        self._advance(stretches)

    async def _put_aside(self, stretch: Stretch, error: Exception) -> None:
        await self.context.apply(batch_of([refused(stretch, RejectedError(Rejection.UNPROCESSABLE, describe(error)))]))
        self._advance([stretch])

    def _advance(self, stretches: Sequence[Stretch]) -> None:
        for stretch in stretches:
            self.positions[stretch.partition] = stretch.end
        self.stall_detector.record_positions(self.positions)

    def _moved_up(self, stretch: Stretch) -> Stretch:
        """A half begins where the database stands, which the other half may have moved."""
        return Stretch(stretch.partition, stretch.epoch, self.positions[stretch.partition], stretch.arrived)

    async def _halt(self, error: OffsetOutOfRangeError) -> None:
        """The recorded offset does not fit the log: stand still, say why, and wait for somebody's decision."""
        log.error("partition_halted", partition=key_of(error.partition), error=str(error))
        incident = Incident(key_of(error.partition), error.position, error.bounds.start, error.bounds.end)
        await self.context.database.run(leases.halt, self.context.held_leases.job.id, incident)
        self.positions.pop(error.partition, None)


def _position(lease: Lease, before: tuple[int, int] | None) -> int:
    if before is not None and before[0] == lease.epoch:
        return before[1]
    return lease.next_offset or 0
