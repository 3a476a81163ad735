"""A publisher of one of many sources: all share the connection of one sink."""

from tidegate.events.publisher import Publisher
from tidegate.events.sink import Sink


class SharedPublisher(Publisher):
    """Publishes over a sink, which connects with the first event, and which its owner closes."""

    def __init__(self, sink: Sink, servers: str, *, source: str, topic_prefix: str, timeout_s: float) -> None:
        super().__init__(servers, source=source, topic_prefix=topic_prefix, timeout_s=timeout_s)
        self._sink = sink
        self._open = True
