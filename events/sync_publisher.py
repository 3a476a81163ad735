"""The client for producers without asyncio: scripts, notebooks, Spark drivers.

with SyncPublisher("localhost:9092", source="flights-import") as publisher:
    publisher.dataset_updated("lake://flights", {"day": "2013-01-01"}, event_id="flights/2013-01-01")
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar
from uuid import UUID

from anyio.from_thread import BlockingPortal, start_blocking_portal

from tidegate.events.publisher import Outcome, Publisher, Update
from tidegate.events.security import PLAINTEXT
from tidegate.schemas.error import RequestError
from tidegate.schemas.kafka_security import KafkaSecurity
from tidegate.schemas.wire.event import EventId

T = TypeVar("T")


class SyncPublisher:
    """A `Publisher` for programs without asyncio, safe to use from several threads. Each call blocks until its event is stored.

    Open it with `with`, or with `open` and `close`, as in a notebook.
    """

    def __init__(
        self,
        servers: str,
        *,
        source: str,
        security: KafkaSecurity = PLAINTEXT,
        topic_prefix: str = "tidegate.",
        timeout_s: float = 10.0,
    ) -> None:
        """Parameters and errors as for `Publisher`."""
        self._publisher = Publisher(servers, source=source, security=security, topic_prefix=topic_prefix, timeout_s=timeout_s)
        self._thread = ExitStack()
        self._portal: BlockingPortal | None = None

    def __enter__(self) -> Self:
        """As `open`."""
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(None if error is None else 0)

    def open(self) -> Self:
        """Connect. Raises UnavailableError when Kafka does not answer within `timeout_s`."""
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            portal.call(self._publisher.__aenter__)
            self._thread = stack.pop_all()
            self._portal = portal
        return self

    def close(self, timeout_s: float | None = None) -> None:
        """As `Publisher.close`: calls of other threads have `timeout_s` to finish. Closing again does nothing."""
        portal, self._portal = self._portal, None
        if portal is not None:
            with self._thread:
                portal.call(self._publisher.close, timeout_s)

    def dataset_updated(
        self, uri: str, extra: dict[str, Any] | None = None, *, event_id: str | None = None, time: datetime | None = None
    ) -> EventId:
        """As `Publisher.dataset_updated`."""
        return self._call(partial(self._publisher.dataset_updated, uri, extra, event_id=event_id, time=time))

    def datasets_updated(self, updates: Iterable[Update]) -> Sequence[EventId]:
        """As `Publisher.datasets_updated`."""
        return self._call(partial(self._publisher.datasets_updated, updates))

    def dag_file_changed(self, path: str, *, event_id: str | None = None, time: datetime | None = None) -> EventId:
        """As `Publisher.dag_file_changed`."""
        return self._call(partial(self._publisher.dag_file_changed, path, event_id=event_id, time=time))

    def task_finished(self, submission_id: UUID, outcome: Outcome, **facts: Any) -> EventId:
        """As `Publisher.task_finished`; `facts` are its keyword arguments; `dag_id`, `run_id` and `token` are required."""
        return self._call(partial(self._publisher.task_finished, submission_id, outcome, **facts))

    def _call(self, publish: Callable[[], Awaitable[T]]) -> T:
        portal = self._portal
        if portal is None:
            raise RequestError("the publisher is not open: it was closed, or used outside its `with` block")
        return portal.call(publish)
