"""The one consumer of the state topics in a web process. It has no group, and begins with the next change."""

from collections.abc import Mapping

import anyio
import msgspec
import structlog

from tidegate.daemon.live.containment import contained
from tidegate.daemon.live.hub import Hub
from tidegate.daemon.live.message import message
from tidegate.daemon.live.recent import Change
from tidegate.daemon.outage import Retry
from tidegate.daemon.settings import Settings
from tidegate.events import topics
from tidegate.events.source import Partition, Record, Source
from tidegate.events.stall_detector import StallDetector
from tidegate.events.subscriber import GapError, LastSeqs, Subscription
from tidegate.schemas.error import KAFKA, UnavailableError
from tidegate.schemas.wire.event import Kind

log = structlog.get_logger()

TIMEOUT_S = 5.0
PROBE_S = 2.0
"""A consumer of a broker that is away gets no records, and no error: without records it asks the broker this often."""

NO_KAFKA = "TIDEGATE_KAFKA_SERVERS is not set for this web process: it learns of no change"


async def follow(hub: Hub, settings: Settings) -> None:
    """Publish each change to the hub, for ever. An outage is shown by the streams, and costs no change."""
    if not settings.kafka_servers:
        hub.outages.begin(UnavailableError(NO_KAFKA, server=KAFKA))
        return
    follower, retry = _Follower(hub, settings), Retry(hub.outages)
    while True:
        await retry.once(contained, "live_failed", "its connection to Kafka", follower.read)


class _Follower:
    """The position of this process in the state topics, across connections."""

    def __init__(self, hub: Hub, settings: Settings) -> None:
        self._hub = hub
        self._settings = settings
        self._kinds: Mapping[str, Kind] = {
            topics.name(settings.topic_prefix, kind): kind for kind in (Kind.DAG_RUN_STATE, Kind.TASK_STATE)
        }
        self._is_incomplete = False
        self._subscription = Subscription(self._kinds, self._on_gap, LastSeqs())
        self._probed_at = 0.0

    def _on_gap(self, gap: GapError) -> None:
        log.warning("live_gap", error=str(gap))
        self._is_incomplete = True

    async def read(self) -> None:
        """Raises UnavailableError, and RequestError for a missing topic."""
        settings, subscription = self._settings, self._subscription
        async with (
            Source(settings.kafka_servers, security=settings.kafka_security, timeout_s=TIMEOUT_S) as source,
            subscription.connected(source, from_beginning=False),
        ):
            self._hub.resume(subscription.positions)
            self._hub.outages.end(KAFKA)
            stall_detector = StallDetector()
            while True:
                await self._step(source)
                await stall_detector.check(source)

    async def _step(self, source: Source) -> None:
        subscription, before = self._subscription, dict(self._subscription.positions)
        records = await subscription.fetch(source)
        has_moved = subscription.positions != before
        changes = [change for record in records if (change := self._change(record)) is not None]
        for record in records:
            subscription.advance(record)
        if has_moved or self._is_incomplete:
            self._is_incomplete = False
            self._hub.begin(subscription.positions)
        self._hub.publish(changes, subscription.positions)
        await subscription.follow_partitions(source)
        if not records:
            await self._probe(source)

    def _change(self, record: Record) -> Change | None:
        """None for a record that was received before, or cannot be read."""
        event = self._subscription.new_event(record)
        if event is None:
            return None
        kind = self._kinds[record.topic]
        place = Partition(record.topic, record.partition)
        return Change(place, record.offset, kind, event.dag_id, event.run_id, message(kind, msgspec.json.encode(event)))

    async def _probe(self, source: Source) -> None:
        """Raises UnavailableError for a broker that does not answer."""
        now = anyio.current_time()
        if now - self._probed_at >= PROBE_S:
            self._probed_at = now
            await source.lag()
