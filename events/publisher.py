"""The client for producers: say that something happened, and know that Kafka has it.

    async with Publisher("localhost:9092", source="flights-import") as publisher:
        await publisher.dataset_updated("lake://flights", {"day": "2013-01-01"})

`SyncPublisher` is the same without asyncio: `with SyncPublisher(...) as publisher: publisher.dataset_updated(...)`.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self
from uuid import UUID, uuid4

import anyio
from anyio.from_thread import start_blocking_portal
from msgspec import UNSET

from tidegate.events import cloudevents, topics
from tidegate.events.sink import OutMessage, Sink
from tidegate.schemas.error import RejectedError, RequestError, UnavailableError
from tidegate.schemas.event import DagFileChanged, DatasetUpdated, EventId, Incoming, Kind, TaskFinished, decode, encode, storable

RETRY_AFTER_S = 0.2

Outcome = Literal["succeeded", "failed", "skipped", "killed", "lost"]


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

    async def __aenter__(self) -> Self:
        """Raises UnavailableError when Kafka does not answer within `timeout_s`."""
        await self._persist(self._sink.connect)
        self._open = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open = False
        await self._sink.__aexit__(kind, error, trace)

    async def dataset_updated(
        self, uri: str, extra: dict[str, Any] | None = None, *, event_id: str | None = None, time: datetime | None = None
    ) -> EventId:
        """A dataset got new data. The runs that consume the event can read `extra`, any JSON object."""
        event = DatasetUpdated(uri=uri, extra=extra or {})
        return await self._publish(Kind.DATASET_UPDATED, uri, event, event_id, time)

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

        `follow` and `result` as in `tidegate.schemas.event.TaskFinished`. A `reason` that is too long or cannot be stored is
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
        if not self._open:
            raise RequestError("the publisher is not open; use it inside its `with` block")
        await self._persist(partial(self._sink.send_all, [message]))
        return identity

    async def _persist(self, attempt: Callable[[], Awaitable[object]]) -> None:
        """Try until it worked. Raises UnavailableError after `timeout_s`."""
        problem = UnavailableError(f"Kafka does not answer at {self._servers}")
        try:
            with anyio.fail_after(self._timeout_s):
                while True:
                    try:
                        await attempt()
                    except UnavailableError as error:
                        problem = error
                    else:
                        return
                    await anyio.sleep(RETRY_AFTER_S)
        except TimeoutError:
            raise UnavailableError(f"{problem} (tried for {self._timeout_s:g} s)") from problem
        except RejectedError as error:
            raise RequestError(f"this event cannot be published: {error}") from error


class SyncPublisher:
    """A `Publisher` for programs without asyncio; it may be used from several threads at once."""

    def __init__(self, servers: str, *, source: str, topic_prefix: str = "tidegate.", timeout_s: float = 10.0) -> None:
        """As for `Publisher`."""
        self._publisher = Publisher(servers, source=source, topic_prefix=topic_prefix, timeout_s=timeout_s)
        self._thread = ExitStack()

    def __enter__(self) -> Self:
        """Raises UnavailableError when Kafka does not answer within `timeout_s`."""
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            opened: AbstractContextManager[Publisher] = self._portal.wrap_async_context_manager(self._publisher)
            stack.enter_context(opened)
            self._thread = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._thread.__exit__(kind, error, trace)

    def dataset_updated(
        self, uri: str, extra: dict[str, Any] | None = None, *, event_id: str | None = None, time: datetime | None = None
    ) -> EventId:
        """As `Publisher.dataset_updated`."""
        return self._call(partial(self._publisher.dataset_updated, uri, extra, event_id=event_id, time=time))

    def dag_file_changed(self, path: str, *, event_id: str | None = None, time: datetime | None = None) -> EventId:
        """As `Publisher.dag_file_changed`."""
        return self._call(partial(self._publisher.dag_file_changed, path, event_id=event_id, time=time))

    def task_finished(self, submission_id: UUID, outcome: Outcome, **facts: Any) -> EventId:
        """As `Publisher.task_finished`."""
        return self._call(partial(self._publisher.task_finished, submission_id, outcome, **facts))

    def _call(self, publish: Callable[[], Awaitable[EventId]]) -> EventId:
        try:
            return self._portal.call(publish)
        except (AttributeError, RuntimeError) as error:
            raise RequestError("the publisher is not open; use it inside its `with` block") from error


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
    return OutMessage(topic, key.encode(), value, headers)
