"""The client for producers: say that something happened, and know that Kafka has it.

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
from tidegate.events.sink import MAX_MESSAGE_BYTES, OutMessage, Sink, size
from tidegate.schemas.error import RejectedError, RequestError, UnavailableError
from tidegate.schemas.wire.envelope import decode
from tidegate.schemas.wire.event import DagFileChanged, DatasetUpdated, EventId, Incoming, Kind, TaskFinished, encode, storable

RETRY_AFTER_S = 0.2

AT_ONCE = 1000
"""Of many events so many travel together, and have `timeout_s` to arrive."""

Outcome = Literal["succeeded", "failed", "skipped", "killed", "lost"]


class Update(msgspec.Struct, frozen=True):
    """One of many updates of datasets, as `Publisher.dataset_updated` takes them."""

    uri: str
    extra: dict[str, Any] | None = None
    event_id: str | None = None
    time: datetime | None = None


class Publisher:
    """Publishes events; every call returns when Kafka has stored the event on all in-sync replicas.

    Calls may run concurrently, and then travel in batches. An event given the same `event_id` again is the same event and
    has no effect twice; use an id of your own where your program may repeat itself, else each call gets a new one.

    Every call raises RequestError for what cannot be an event, and UnavailableError when Kafka did not take it within
    `timeout_s`: then it may or may not have arrived, and repeating it with the same id is safe.
    """

    def __init__(self, servers: str, *, source: str, topic_prefix: str = "tidegate.", timeout_s: float = 10.0) -> None:
        """`source` names the program, the same at every start: (source, event_id) is the identity of an event."""
        if not source or not source.isprintable():
            raise RequestError("a publisher needs a source: the name of the program that publishes")
        self._source = source
        self._prefix = topic_prefix
        self._timeout_s = timeout_s
        self._servers = servers
        # Half the time, so that a connection that went dead is replaced while the call still waits.
        self._sink = Sink(servers, delivery_timeout_s=timeout_s / 2)
        self._open = False
        self._closed = False
        self._calls = 0
        self._idle: anyio.Event | None = None

    async def __aenter__(self) -> Self:
        """Raises UnavailableError when Kafka does not answer within `timeout_s`."""
        await self._persist(self._sink.connect)
        self._open = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close(self._timeout_s if error is None else 0)

    async def close(self, timeout_s: float | None = None) -> None:
        """Take no more calls. Those under way have `timeout_s`, else that of the publisher; then they end with UnavailableError.

        Returns within a few seconds more, whatever Kafka does. Closing again does nothing.
        """
        if self._closed:
            return
        self._open = False
        try:
            with anyio.move_on_after(self._timeout_s if timeout_s is None else timeout_s):
                while self._calls:
                    self._idle = anyio.Event()
                    await self._idle.wait()
        finally:
            self._closed = True
            await self._sink.__aexit__(None, None, None)

    async def dataset_updated(
        self, uri: str, extra: dict[str, Any] | None = None, *, event_id: str | None = None, time: datetime | None = None
    ) -> EventId:
        """A dataset got new data. The runs that consume the event can read `extra`, any JSON object."""
        event = DatasetUpdated(uri=uri, extra=extra or {})
        return await self._publish(Kind.DATASET_UPDATED, uri, event, event_id, time)

    async def datasets_updated(self, updates: Iterable[Update]) -> Sequence[EventId]:
        """Many datasets got new data; faster than as many calls. Updates of one dataset arrive in the order given.

        All are looked at before the first one is sent. Where UnavailableError is raised, some may have arrived.
        """
        now = datetime.now(UTC)
        made = [self._made(index, update, now) for index, update in enumerate(updates)]
        for start in range(0, len(made), AT_ONCE):
            await self._send([message for message, _ in made[start : start + AT_ONCE]])
        return [identity for _, identity in made]

    async def dag_file_changed(self, path: str, *, event_id: str | None = None, time: datetime | None = None) -> EventId:
        """The file at `path`, relative to the DAG folder, is new, changed or gone."""
        return await self._publish(Kind.DAG_FILE_CHANGED, path, DagFileChanged(path=path), event_id, time)

    async def task_finished(
        self,
        submission_id: UUID,
        outcome: Outcome,
        *,
        dag_id: str,
        run_id: str,
        reason: str = "",
        exit_code: int | None = None,
        started_at: datetime | None = None,
        finished_at: datetime | None = None,
        follow: tuple[str, ...] | None = None,
        result: Any = None,
        event_id: str | None = None,
        time: datetime | None = None,
    ) -> EventId:
        """An attempt ended. `dag_id` and `run_id` only decide on the partition, so that a run's events stay in order.

        `follow` and `result` as in `tidegate.schemas.wire.event.TaskFinished`. A `reason` that is too long or cannot be stored is
        shortened and mended rather than refused.
        """
        event = TaskFinished(
            submission_id=submission_id,
            outcome=outcome,
            reason=storable(reason),
            exit_code=exit_code,
            started_at=started_at,
            finished_at=finished_at,
            follow=UNSET if follow is None else follow,
            result=UNSET if result is None else result,
        )
        return await self._publish(Kind.TASK_FINISHED, topics.run_key(dag_id, run_id), event, event_id, time)

    async def _publish(self, kind: Kind, key: str, event: Incoming, event_id: str | None, time: datetime | None) -> EventId:
        identity = EventId(self._source, event_id or str(uuid4()))
        message = _message(topics.name(self._prefix, kind), kind, key, event, identity, time or datetime.now(UTC))
        await self._send([message])
        return identity

    def _made(self, index: int, update: Update, now: datetime) -> tuple[OutMessage, EventId]:
        kind, identity = Kind.DATASET_UPDATED, EventId(self._source, update.event_id or str(uuid4()))
        event = DatasetUpdated(uri=update.uri, extra=update.extra or {})
        try:
            return _message(topics.name(self._prefix, kind), kind, update.uri, event, identity, update.time or now), identity
        except RequestError as error:
            raise RequestError(f"update {index} (counted from 0), {update.uri!r:.100}: {error}") from error

    async def _send(self, messages: Sequence[OutMessage]) -> None:
        async with self._call():
            await self._persist(partial(self._sink.send_all, messages))

    @asynccontextmanager
    async def _call(self) -> AsyncGenerator[None]:
        """Raises RequestError unless the publisher is open."""
        if not self._open:
            raise RequestError("the publisher is not open; use it inside its `with` block")
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if self._idle is not None:
                self._idle.set()

    async def _persist(self, attempt: Callable[[], Awaitable[object]]) -> None:
        """Try until it worked. Raises UnavailableError after `timeout_s`."""
        problem = UnavailableError(f"Kafka does not answer at {self._servers}")
        with anyio.move_on_after(self._timeout_s):
            while (failed := await self._try(attempt)) is not None:
                problem = failed
                await anyio.sleep(RETRY_AFTER_S)
            return
        raise UnavailableError(f"{problem} (tried for {self._timeout_s:g} s)") from problem

    async def _try(self, attempt: Callable[[], Awaitable[object]]) -> UnavailableError | None:
        """What kept it from working, if it may work later. Raises RequestError where it never will."""
        try:
            await attempt()
        except RejectedError as error:
            raise RequestError(f"this event cannot be published: {error}") from error
        except UnavailableError as error:
            if self._closed:
                raise
            return error
        return None


def _message(topic: str, kind: Kind, key: str, event: Incoming, identity: EventId, time: datetime) -> OutMessage:
    """Raises RequestError unless a daemon will understand it."""
    if time.tzinfo is None:
        raise RequestError(f"the time {time.isoformat()} of an event needs a time zone")
    headers = cloudevents.headers(kind, event_id=identity.id, source=identity.source, time=time)
    try:
        value = encode(event)
        decode(kind, headers, value)
    except (RejectedError, TypeError, ValueError) as error:
        raise RequestError(f"this event cannot be published: {error}") from error
    message = OutMessage(topic, key.encode(), value, headers)
    if (found := size(message)) > MAX_MESSAGE_BYTES:
        raise RequestError(f"this event cannot be published: it has {found} bytes, and Kafka takes {MAX_MESSAGE_BYTES} at most")
    return message
