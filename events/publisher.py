"""The client for producers of events.

    async with Publisher("localhost:9092", source="flights-import") as publisher:
        await publisher.dataset_updated("lake://flights", {"day": "2013-01-01"})

`SyncPublisher` is the same without asyncio: `with SyncPublisher(...) as publisher: publisher.dataset_updated(...)`.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self
from uuid import UUID, uuid4

import anyio
import msgspec
from msgspec import UNSET

from tidegate.events import cloudevents, topics
from tidegate.events.security import PLAINTEXT
from tidegate.events.sink import MAX_SENT_BYTES, ProducerRecord, Sink, record_bytes
from tidegate.schemas.error import RejectedError, RequestError, UnavailableError
from tidegate.schemas.kafka_security import KafkaSecurity
from tidegate.schemas.notice import LogExcerpt
from tidegate.schemas.wire.envelope import decode
from tidegate.schemas.wire.event import (
    PRODUCER_SOURCE,
    DagFileChanged,
    DatasetUpdated,
    EventId,
    Incoming,
    Kind,
    TaskFinished,
    encode,
    storable,
)

RETRY_AFTER_S = 0.2

BATCH_EVENTS = 1000
"""The number of events of `datasets_updated` that are sent together; `timeout_s` applies to each batch."""

Outcome = Literal["succeeded", "failed", "skipped", "killed", "lost"]


class Update(msgspec.Struct, frozen=True):
    """An update for `Publisher.datasets_updated`; the fields are the parameters of `Publisher.dataset_updated`."""

    uri: str
    extra: dict[str, Any] | None = None
    event_id: str | None = None
    time: datetime | None = None


class Publisher:
    """Publishes events; each call returns when Kafka has stored the event on all in-sync replicas. An async context manager.

    Calls may run concurrently; their events are then sent in batches. All publishing methods take:

    `event_id`: the id of the event, 1 to 512 characters without NUL; by default a new UUID. Events with the same source and id
    are the same event, and only the first has an effect: set it where the program may repeat a call.
    `time`: when the event happened, aware; default now.

    They return the event's identity. They raise RequestError for an invalid event, and for a publisher that is not open; and
    UnavailableError when Kafka did not acknowledge the event within `timeout_s`: then it may or may not have arrived, and it is
    safe to publish it again with the same id.
    """

    def __init__(
        self,
        servers: str,
        *,
        source: str,
        topic_prefix: str = "tidegate.",
        timeout_s: float = 10.0,
        security: KafkaSecurity = PLAINTEXT,
    ) -> None:
        """`servers`: host:port, several separated by commas. `source`: the program's name, the same at every start, 1 to 512
        printable characters. `topic_prefix`: the setting of the daemons. `timeout_s`: for connecting, and for each call.
        `security`: TLS and login; by default none, and `KafkaSecurity.from_environ(os.environ)` reads the settings.

        Raises RequestError without a source, and for that of Tidegate's own events, which name the task that produced them.
        """
        if not source or not source.isprintable():
            raise RequestError("a publisher needs a source: the name of the program that publishes, in printable characters")
        if source == PRODUCER_SOURCE:
            problem = f"the source {source!r} is that of the events which Tidegate publishes for tasks"
            raise RequestError(f"{problem}; write the name of the program that publishes")
        self._source = source
        self._prefix = topic_prefix
        self._timeout_s = timeout_s
        self._servers = servers
        # Half the timeout, so that a dead connection is replaced while the call still waits.
        self._sink = Sink(servers, security=security, delivery_timeout_s=timeout_s / 2)
        self._open = False
        self._closed = False
        self._calls = 0
        self._idle: anyio.Event | None = None

    async def __aenter__(self) -> Self:
        """Connect. Raises UnavailableError when Kafka does not answer within `timeout_s`, and RequestError the second time."""
        if self._closed:
            raise RequestError("the publisher was closed; create another one")
        if self._open:
            raise RequestError("the publisher is open already")
        await self._retry(self._sink.connect)
        self._open = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close(self._timeout_s if error is None else 0)

    async def close(self, timeout_s: float | None = None) -> None:
        """Refuse new calls and wait for the current ones, for `timeout_s` at most; then they raise UnavailableError.

        `timeout_s` is that of the publisher by default. Disconnecting takes a few seconds more at most, also when Kafka is away.
        Closing again does nothing.
        """
        if self._closed:
            return
        self._open = False
        try:
            with anyio.move_on_after(self._timeout_s if timeout_s is None else timeout_s):
                if self._calls:
                    self._idle = self._idle or anyio.Event()  # of an earlier call of `close` that waits
                    await self._idle.wait()
        finally:
            self._closed = True
            await self._sink.__aexit__(None, None, None)

    async def dataset_updated(
        self, uri: str, extra: dict[str, Any] | None = None, *, event_id: str | None = None, time: datetime | None = None
    ) -> EventId:
        """Publish that the dataset `uri` has new data.

        `extra`: a JSON object, which filters of conditions and the runs that consume the event can read.
        """
        event = DatasetUpdated(uri=uri, extra=extra or {})
        return await self._publish(Kind.DATASET_UPDATED, uri, event, event_id, time)

    async def datasets_updated(self, updates: Iterable[Update]) -> Sequence[EventId]:
        """Publish many updates, faster than one call for each. Updates of one dataset keep their order.

        All are validated before the first is sent. `timeout_s` applies to each 1,000 of them. With UnavailableError some may have
        arrived.
        """
        now = datetime.now(UTC)
        events = [self._update_record(index, update, now) for index, update in enumerate(updates)]
        for start in range(0, len(events), BATCH_EVENTS):
            await self._send([record for record, _ in events[start : start + BATCH_EVENTS]])
        return [identity for _, identity in events]

    async def dag_file_changed(self, path: str, *, event_id: str | None = None, time: datetime | None = None) -> EventId:
        """Publish that the file at `path`, relative to the DAG folder, is new, changed or deleted."""
        return await self._publish(Kind.DAG_FILE_CHANGED, path, DagFileChanged(path=path), event_id, time)

    async def task_finished(
        self,
        submission_id: UUID,
        outcome: Outcome,
        *,
        dag_id: str,
        run_id: str,
        token: str,
        reason: str = "",
        exit_code: int | None = None,
        started_at: datetime | None = None,
        finished_at: datetime | None = None,
        follow: tuple[str, ...] | None = None,
        result: Any = None,
        outlets: dict[str, dict[str, Any]] | None = None,
        events: tuple[DatasetUpdated, ...] | None = None,
        log: LogExcerpt | None = None,
        event_id: str | None = None,
        time: datetime | None = None,
    ) -> EventId:
        """Publish that the attempt `submission_id` of a task has ended.

        `dag_id`, `run_id`: the run; they choose the partition, so that a run's events keep their order.
        `token`: the token that the process of the attempt got; without it the event becomes a dead letter.
        `reason`: a text for people; cut to 10,000 characters, with characters that cannot be stored replaced.
        `follow`: ids of the tasks directly after this one that run, all others are skipped; None makes no choice.
        `result`: the JSON value that the task returned; None for no result.
        `outlets`: by URI, the `extra` of the event of an outlet of the task; `events`: further dataset events. Tidegate publishes
        them when it records the end of an attempt that succeeded.
        `log`: where the log of an attempt is that did not succeed, and its last lines.
        """
        event = TaskFinished(
            submission_id=submission_id,
            token=token,
            outcome=outcome,
            reason=storable(reason),
            exit_code=exit_code,
            started_at=started_at,
            finished_at=finished_at,
            follow=UNSET if follow is None else follow,
            result=UNSET if result is None else result,
            outlets=UNSET if outlets is None else outlets,
            events=UNSET if events is None else events,
            log=UNSET if log is None else log,
        )
        return await self._publish(Kind.TASK_FINISHED, topics.run_key(dag_id, run_id), event, event_id, time)

    async def _publish(self, kind: Kind, key: str, event: Incoming, event_id: str | None, time: datetime | None) -> EventId:
        identity = EventId(self._source, event_id or str(uuid4()))
        record = _event_record(topics.name(self._prefix, kind), kind, key, event, identity, time or datetime.now(UTC))
        await self._send([record])
        return identity

    def _update_record(self, index: int, update: Update, now: datetime) -> tuple[ProducerRecord, EventId]:
        kind, identity = Kind.DATASET_UPDATED, EventId(self._source, update.event_id or str(uuid4()))
        event = DatasetUpdated(uri=update.uri, extra=update.extra or {})
        try:
            return _event_record(topics.name(self._prefix, kind), kind, update.uri, event, identity, update.time or now), identity
        except RequestError as error:
            raise RequestError(f"update {index} (counted from 0), {update.uri!r:.100}: {error}") from error

    async def _send(self, records: Sequence[ProducerRecord]) -> None:
        async with self._counted_call():
            await self._retry(partial(self._sink.send_all, records))

    @asynccontextmanager
    async def _counted_call(self) -> AsyncGenerator[None]:
        """Raises RequestError unless the publisher is open."""
        if not self._open:
            raise RequestError("the publisher is not open: it was closed, or used outside its `with` block")
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if self._idle is not None and not self._calls:
                self._idle.set()

    async def _retry(self, attempt: Callable[[], Awaitable[object]]) -> None:
        """Retry until the attempt succeeds. Raises UnavailableError after `timeout_s`."""
        problem = UnavailableError(f"Kafka does not answer at {self._servers}")
        with anyio.move_on_after(self._timeout_s):
            while (failure := await self._failure_of(attempt)) is not None:
                problem = failure
                await anyio.sleep(RETRY_AFTER_S)
            return
        raise UnavailableError(f"{problem} (tried for {self._timeout_s:g} s)") from problem

    async def _failure_of(self, attempt: Callable[[], Awaitable[object]]) -> UnavailableError | None:
        """The failure of one attempt, or None. Raises RequestError for a failure that retrying cannot change."""
        try:
            await attempt()
        except RejectedError as error:
            raise RequestError(f"this event cannot be published: {error}") from error
        except UnavailableError as error:
            if self._closed:
                raise
            return error
        return None


def _event_record(topic: str, kind: Kind, key: str, event: Incoming, identity: EventId, time: datetime) -> ProducerRecord:
    """Raises RequestError unless a daemon can decode the record."""
    if time.tzinfo is None:
        raise RequestError(f"the time {time.isoformat()} of an event has no time zone; write datetime(…, tzinfo=UTC)")
    try:
        headers = cloudevents.headers(kind, event_id=identity.id, source=identity.source, time=time)
        record = ProducerRecord(topic, key.encode(), encode(event), headers)
        decode(kind, headers, record.value)
    except (RejectedError, RecursionError, TypeError, ValueError) as error:
        raise RequestError(f"this event cannot be published: {error}") from error
    if (size := record_bytes(record)) > MAX_SENT_BYTES:
        raise RequestError(f"this event cannot be published: it has {size} bytes, and at most {MAX_SENT_BYTES} are possible")
    return record
