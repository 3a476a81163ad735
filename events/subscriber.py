"""The client for subscribers: follow runs and tasks as they move.

async for event in subscribe("localhost:9092"):
    match event:
        case DagRunStateChanged(dag_id=dag_id, run_id=run_id, state=state):
            print(dag_id, run_id, state)
"""

import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import chain
from random import uniform
from typing import Protocol

import anyio

from tidegate.events import topics
from tidegate.events.progress import Progress
from tidegate.events.source import OffsetOutOfRangeError, Partition, Record, Source
from tidegate.schemas.error import RejectedError, RequestError, TidegateError, UnavailableError
from tidegate.schemas.wire.envelope import decode_state
from tidegate.schemas.wire.event import Kind, StateChanged

FETCH_S = 1.0
FETCH_RECORDS = 500
REMEMBERED_RUNS = 100_000
BACKOFF_S = 0.25
BACKOFF_MAX_S = 30.0

log = logging.getLogger(__name__)


class GapError(TidegateError):
    """Events of a run are missing before this one: they expired before they were read. `event` is the one that shows it."""

    def __init__(self, event: StateChanged, expected: int) -> None:
        super().__init__(
            f"run {event.run_id} of {event.dag_id}: expected {type(event).__name__} {expected}, got {event.seq};"
            " what lies between was not received"
        )
        self.event = event
        self.expected = expected


async def subscribe(
    servers: str,
    *,
    topic_prefix: str = "tidegate.",
    kinds: Collection[Kind] = (Kind.DAG_RUN_STATE, Kind.TASK_STATE),
    from_beginning: bool = False,
    group: str | None = None,
    on_gap: Callable[[GapError], None] | None = None,
) -> AsyncGenerator[StateChanged]:
    """Each move of a run or task once, in order within its run, for as long as the caller iterates.

    Starts with what happens from now on, or `from_beginning` with the oldest that Kafka still keeps. With a `group`, any name,
    it goes on where the last subscription of that name stopped; the last few events may then come again.

    Connects again when Kafka was away. Raises UnavailableError when it is away at the start, RequestError when there is no such
    topic, and GapError where events are missing, unless `on_gap` takes it; then the event follows.
    """
    follower = Follower({topics.name(topic_prefix, kind): kind for kind in kinds}, on_gap, LastSeen())
    async with aclosing(follow(servers, follower, from_beginning=from_beginning, group=group)) as events:
        async for event in events:
            if event is not None:
                yield event


async def follow(
    servers: str, follower: "Follower", *, from_beginning: bool, group: str | None = None
) -> AsyncGenerator[StateChanged | None]:
    """As `subscribe`, from where the follower stands. None each time that all that came is taken."""
    while True:
        try:
            async with (
                Source(servers, group=group) as source,
                follower.at(source, from_beginning=from_beginning),
                aclosing(_follow(source, follower)) as events,
            ):
                async for event in events:
                    yield event
        except UnavailableError as error:
            if not follower.positions:
                raise
            log.warning("subscription interrupted: %s", error)
        await follower.pause()


async def _follow(source: Source, follower: "Follower") -> AsyncGenerator[StateChanged | None]:
    progress = Progress()
    while True:
        yield None
        for record in await follower.fetch(source):
            if (event := follower.new(record)) is not None:
                yield event
            follower.advance(record)
        await source.commit(follower.positions)
        await progress.check(source)


class Seen(Protocol):
    """Knows what came before."""

    def is_new(self, event: StateChanged) -> bool:
        """False for what was seen before. Raises GapError, once, when the one before was not."""


class Follower:
    """Where a subscription stands: the offsets after what the caller has had, and the last `seq` of each run."""

    def __init__(self, kinds: Mapping[str, Kind], on_gap: Callable[[GapError], None] | None, seen: Seen) -> None:
        self.positions: dict[Partition, int] = {}
        self.ends: dict[Partition, int] = {}
        self._kinds = kinds
        self._on_gap = on_gap
        self._seen = seen
        self._failures = 0

    @property
    def has_caught_up(self) -> bool:
        """Whether the caller has had all that there was when the last connection was made."""
        return all(self.positions[partition] >= end for partition, end in self.ends.items())

    @asynccontextmanager
    async def at(self, source: Source, *, from_beginning: bool) -> AsyncGenerator[None]:
        """Go on where we stand, or find out where to start; remember it at the end."""
        if not self.positions:
            self.positions = await self._start(source, from_beginning=from_beginning)
        self.ends = {partition: bounds.end for partition, bounds in (await source.bounds(list(self.positions))).items()}
        source.assign(self.positions)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await source.commit(self.positions, every_s=0)

    async def pause(self) -> None:
        """Longer after each failure that follows another one."""
        self._failures += 1
        await anyio.sleep(min(BACKOFF_S * 2**self._failures, BACKOFF_MAX_S) * uniform(0.5, 1.0))  # noqa: S311, not a secret

    async def _start(self, source: Source, *, from_beginning: bool) -> dict[Partition, int]:
        partitions = []
        for topic in self._kinds:
            numbers = await source.partitions_of(topic)
            if not numbers:
                raise RequestError(f"Kafka has no topic {topic}; `tidegate topics create` makes it")
            partitions += [Partition(topic, number) for number in sorted(numbers)]
        known = await source.committed(partitions)
        bounds = await source.bounds(partitions)
        return {p: known.get(p, start if from_beginning else end) for p, (start, end) in bounds.items()}

    async def fetch(self, source: Source) -> Sequence[Record]:
        """Raises UnavailableError."""
        try:
            batches = await source.fetch(FETCH_S, FETCH_RECORDS)
        except OffsetOutOfRangeError as error:
            log.warning("%s; going on with the oldest", error)
            self.positions[error.partition] = error.bounds.start
            source.assign(self.positions)
            return []
        self._failures = 0
        return list(chain.from_iterable(batches.values()))

    def advance(self, record: Record) -> None:
        """The caller is done with it."""
        self.positions[Partition(record.topic, record.partition)] = record.offset + 1

    def new(self, record: Record) -> StateChanged | None:
        """The event, unless the caller has had it. Raises GapError."""
        try:
            event = decode_state(self._kinds[record.topic], record.headers, record.value)
        except RejectedError as error:
            log.warning("%s/%s, offset %s skipped: %s", record.topic, record.partition, record.offset, error)
            return None
        try:
            return event if self._seen.is_new(event) else None
        except GapError as gap:
            if self._on_gap is None:
                raise
            self._on_gap(gap)
            return event


class LastSeen:
    """The last `seq` of the runs that moved most recently; of a run long silent a repetition may pass."""

    def __init__(self, limit: int = REMEMBERED_RUNS) -> None:
        self._limit = limit
        self._seqs: OrderedDict[tuple[type[StateChanged], str, str], int] = OrderedDict()

    def is_new(self, event: StateChanged) -> bool:
        """False for what was seen before. Raises GapError, once, when the one before was not."""
        run = (type(event), event.dag_id, event.run_id)
        last = self._seqs.get(run)
        if last is not None and event.seq <= last:
            return False
        self._seqs[run] = event.seq
        self._seqs.move_to_end(run)
        if len(self._seqs) > self._limit:
            self._seqs.popitem(last=False)
        if last is not None and event.seq > last + 1:
            raise GapError(event, last + 1)
        return True
