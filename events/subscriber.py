"""The client for subscribers to the states of runs and tasks.

async for event in subscribe("localhost:9092"):
    match event:
        case DagRunStateChanged(dag_id=dag_id, run_id=run_id, state=state):
            print(dag_id, run_id, state)
"""

import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from itertools import chain
from random import uniform
from typing import Protocol

import anyio

from tidegate.events import topics
from tidegate.events.security import PLAINTEXT
from tidegate.events.source import OffsetOutOfRangeError, Partition, Record, Source, UnreadableBatchError
from tidegate.events.stall_detector import StallDetector
from tidegate.schemas.error import RejectedError, RequestError, TidegateError, UnavailableError
from tidegate.schemas.kafka_security import KafkaSecurity
from tidegate.schemas.wire.envelope import decode_state
from tidegate.schemas.wire.event import Kind, StateChanged

STATE_KINDS = frozenset({Kind.DAG_RUN_STATE, Kind.TASK_STATE})
FETCH_S = 1.0
FETCH_RECORDS = 500
REMEMBERED_RUNS = 100_000
PARTITIONS_EVERY_S = 30.0
LEADERS_EVERY_S = 2.0
BACKOFF_S = 0.25
BACKOFF_MAX_S = 30.0

log = logging.getLogger(__name__)


class GapError(TidegateError):
    """Events of a run are missing before `event`, whose `seq` should have been `expected`: they expired before they were read."""

    def __init__(self, event: StateChanged, expected: int) -> None:
        super().__init__(
            f"run {event.run_id} of {event.dag_id}: expected {type(event).__name__} {expected}, got {event.seq};"
            " the events between were not received"
        )
        self.event = event
        self.expected = expected


async def subscribe(
    servers: str,
    *,
    topic_prefix: str = "tidegate.",
    kinds: Collection[Kind] = STATE_KINDS,
    from_beginning: bool = False,
    group: str | None = None,
    on_gap: Callable[[GapError], None] | None = None,
    security: KafkaSecurity = PLAINTEXT,
) -> AsyncGenerator[StateChanged]:
    """Each state of a run (`DagRunStateChanged`) and task (`TaskStateChanged`) once, in order within its run, without end.

    `servers`: host:port, several separated by commas. `topic_prefix`: the setting of the daemons.
    `kinds`: the topics to read; default both.
    `from_beginning`: start with the oldest event that Kafka keeps; default False, with the next event.
    `group`: a name under which Kafka stores the position every 10 s; a later subscription of that name continues there, and may
    repeat the last few events. Default None: no stored position.
    `on_gap`: called instead of raising GapError; the event that revealed the gap follows. Events arrive once as long as at most
    100,000 runs change at a time.
    `security`: TLS and login; by default none, and `KafkaSecurity.from_environ(os.environ)` reads the settings.

    Reconnects when Kafka goes away. Raises UnavailableError when it is away at the start, RequestError for a missing topic and
    for other `kinds`, and GapError for missing events.
    """
    if not kinds or not STATE_KINDS.issuperset(kinds):
        raise RequestError("`kinds` has to be a collection of Kind.DAG_RUN_STATE and Kind.TASK_STATE, or of one of them")
    subscription = Subscription({topics.name(topic_prefix, kind): kind for kind in kinds}, on_gap, LastSeqs())
    states = read_states(servers, subscription, from_beginning=from_beginning, group=group, security=security)
    async with aclosing(states) as events:
        async for event in events:
            if event is not None:
                yield event


async def read_states(
    servers: str,
    subscription: "Subscription",
    *,
    from_beginning: bool,
    group: str | None = None,
    security: KafkaSecurity = PLAINTEXT,
) -> AsyncGenerator[StateChanged | None]:
    """As `subscribe`, from the position of the subscription. Yields None before each fetch."""
    while True:
        try:
            async with (
                Source(servers, security=security, group=group) as source,
                subscription.connected(source, from_beginning=from_beginning),
                aclosing(_read_source(source, subscription)) as events,
            ):
                async for event in events:
                    yield event
        except UnavailableError as error:
            if not subscription.positions:
                raise
            log.warning("subscription interrupted: %s", error)
        await subscription.pause()


async def _read_source(source: Source, subscription: "Subscription") -> AsyncGenerator[StateChanged | None]:
    stall_detector = StallDetector()
    while True:
        yield None
        for record in await subscription.fetch(source):
            if (event := subscription.new_event(record)) is not None:
                yield event
            subscription.advance(record)
        await subscription.follow_partitions(source)
        await source.commit(subscription.positions)
        await stall_detector.check(source)


class Deduplication(Protocol):
    """Remembers the events of each run."""

    def record(self, event: StateChanged) -> bool:
        """Remember the event; False for a repeated one. Raises GapError, once, when its predecessor is missing."""


class Subscription:
    """The position of a subscription across connections: offsets after the yielded events, and the last `seq` of each run.

    Partitions without a leader wait, and the others are read. A subscription that starts with the next event reads them from the
    first record since its start on.
    """

    def __init__(
        self, kinds: Mapping[str, Kind], on_gap: Callable[[GapError], None] | None, deduplication: Deduplication
    ) -> None:
        self.positions: dict[Partition, int] = {}
        self.ends: dict[Partition, int] = {}
        self._kinds = kinds
        self._on_gap = on_gap
        self._deduplication = deduplication
        self._pause_s = BACKOFF_S
        self._partitions_at = float("-inf")
        self._leaderless: frozenset[Partition] = frozenset()
        self._started_at = datetime.now(UTC)
        self._from_start: frozenset[Partition] = frozenset()

    @property
    def has_caught_up(self) -> bool:
        """Whether the position has reached the ends of the logs at the time of the last connection, or of the first leader."""
        return not self._leaderless and all(self.positions[partition] >= end for partition, end in self.ends.items())

    @asynccontextmanager
    async def connected(self, source: Source, *, from_beginning: bool) -> AsyncGenerator[None]:
        """Assign the current positions, or the initial ones, to the source; store them under the group when the block ends."""
        has_leader = await self._partitions(source)
        if self.positions:
            self._drop_absent(has_leader)
            await self._add_partitions(source, has_leader)
        else:
            self.positions = await self._initial_positions(source, has_leader, from_beginning=from_beginning)
        self.ends = await _ends(source, has_leader.keys() - self._leaderless)
        source.assign(self.positions)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await source.commit(self.positions, every_s=0)

    async def pause(self) -> None:
        """Exponential backoff with jitter; a successful fetch resets it."""
        self._pause_s = min(2 * self._pause_s, BACKOFF_MAX_S)
        await anyio.sleep(self._pause_s * uniform(0.5, 1.0))  # noqa: S311, not a secret

    async def _initial_positions(
        self, source: Source, has_leader: Mapping[Partition, bool], *, from_beginning: bool
    ) -> dict[Partition, int]:
        """The stored positions, and those of all other partitions with a leader. Raises UnavailableError if there are none."""
        stored = {partition: found.offset for partition, found in (await source.committed(has_leader.keys())).items()}
        resumed = {partition.topic for partition in stored}  # their other partitions are new
        self._started_at = datetime.now(UTC)
        self._from_start = frozenset(p for p in self._leaderless if not from_beginning and p.topic not in resumed)
        bounds = await source.bounds(has_leader.keys() - self._leaderless - stored.keys())
        positions = {p: start if from_beginning or p.topic in resumed else end for p, (start, end) in bounds.items()}
        if not (positions or stored):
            raise UnavailableError(f"Kafka has no leader for any partition of {' and '.join(sorted(self._kinds))}")
        return {**stored, **positions}

    async def _partitions(self, source: Source) -> Mapping[Partition, bool]:
        """Whether each partition of the topics has a leader. Raises RequestError for no topic, and later UnavailableError."""
        self._partitions_at = anyio.current_time()
        known = {topic: await source.has_leader(topic) for topic in self._kinds}
        if missing := [topic for topic in sorted(known) if not known[topic]]:
            raise _no_topic(missing[0], is_outage=bool(self.positions))
        has_leader = {Partition(topic, number): is_led for topic in known for number, is_led in sorted(known[topic].items())}
        leaderless = frozenset(partition for partition, is_led in has_leader.items() if not is_led)
        for topic, number in sorted(leaderless - self._leaderless):
            log.warning("%s/%s has no leader; its events follow when it has one", topic, number)
        self._leaderless = leaderless
        return has_leader

    def _drop_absent(self, known: Collection[Partition]) -> None:
        """A topic that was created again may have fewer partitions."""
        for partition in sorted(self.positions.keys() - known):
            log.warning("%s/%s does not exist any more", *partition)
            del self.positions[partition]

    async def _add_partitions(self, source: Source, has_leader: Mapping[Partition, bool]) -> bool:
        """Add new partitions of the topics, from their beginning, and partitions with a first leader since the start.

        Returns whether there are any.
        """
        added = [partition for partition, is_led in has_leader.items() if is_led and partition not in self.positions]
        bounds = await source.bounds(added)
        late = [partition for partition in added if partition in self._from_start]
        since_start = {**{p: bounds[p].end for p in late}, **await source.offsets_at(late, self._started_at)}
        self.positions |= {p: since_start.get(p, bounds[p].start) for p in added}
        return bool(added)

    async def follow_partitions(self, source: Source) -> None:
        """Read partitions that a topic, or their first leader, has got meanwhile.

        Asks Kafka every PARTITIONS_EVERY_S, or LEADERS_EVERY_S while a partition has no leader.
        """
        waiting, every_s = self._leaderless, LEADERS_EVERY_S if self._leaderless else PARTITIONS_EVERY_S
        if anyio.current_time() - self._partitions_at < every_s:
            return
        has_leader = await self._partitions(source)
        if await self._add_partitions(source, has_leader):
            source.assign(self.positions)
        self.ends |= await _ends(source, [partition for partition in waiting if has_leader.get(partition)])

    async def fetch(self, source: Source) -> Sequence[Record]:
        """Raises UnavailableError."""
        try:
            batches = await source.fetch(FETCH_S, FETCH_RECORDS)
        except OffsetOutOfRangeError as error:
            log.warning("%s; continuing with the oldest record", error)
            self.positions[error.partition] = error.bounds.start
            source.assign(self.positions)
            return []
        except UnreadableBatchError as error:
            log.warning("%s; continuing after them", error)
            self.positions[error.partition] = max(error.next_offset, error.position + 1)
            source.assign(self.positions)
            return []
        self._pause_s = BACKOFF_S
        return list(chain.from_iterable(batches.values()))

    def advance(self, record: Record) -> None:
        """Move the position past a record whose event was yielded."""
        self.positions[Partition(record.topic, record.partition)] = record.offset + 1

    def new_event(self, record: Record) -> StateChanged | None:
        """The event of a record; None for a repeated or undecodable one. Raises GapError."""
        try:
            event = decode_state(self._kinds[record.topic], record.headers, record.value)
        except RejectedError as error:
            log.warning("%s/%s, offset %s skipped: %s", record.topic, record.partition, record.offset, error)
            return None
        try:
            return event if self._deduplication.record(event) else None
        except GapError as gap:
            if self._on_gap is None:
                raise
            self._on_gap(gap)
            return event


async def _ends(source: Source, partitions: Collection[Partition]) -> dict[Partition, int]:
    return {partition: bounds.end for partition, bounds in (await source.bounds(partitions)).items()}


def _no_topic(topic: str, *, is_outage: bool) -> TidegateError:
    problem = f"Kafka has no topic {topic}; create it with `tidegate topics create`"
    return UnavailableError(problem) if is_outage else RequestError(problem)


class LastSeqs:
    """The last `seq` of the `limit` runs that changed most recently; a repeated event of another run is not recognised."""

    def __init__(self, limit: int = REMEMBERED_RUNS) -> None:
        self._limit = limit
        self._seqs: OrderedDict[tuple[type[StateChanged], str, str], int] = OrderedDict()

    def record(self, event: StateChanged) -> bool:
        """Remember the event; False for a repeated one. Raises GapError, once, when its predecessor is missing."""
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
