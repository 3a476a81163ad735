"""The Kafka client library: publish events with `Publisher` or `SyncPublisher`, follow runs with `subscribe` or `RunStates`.

Errors are `tidegate.schemas.error.UnavailableError` (Kafka is away), `RequestError` (the call can never succeed) and `GapError`.
"""

import logging

from tidegate.events.publisher import Publisher, Update
from tidegate.events.run_states import RunStates
from tidegate.events.subscriber import GapError, subscribe
from tidegate.events.sync_publisher import SyncPublisher
from tidegate.schemas.kafka_security import KafkaSecurity
from tidegate.schemas.wire.event import (
    DagFileChanged,
    DagRunStateChanged,
    DatasetUpdated,
    EventId,
    Kind,
    TaskFinished,
    TaskStateChanged,
)

__all__ = [
    "DagFileChanged",
    "DagRunStateChanged",
    "DatasetUpdated",
    "EventId",
    "GapError",
    "KafkaSecurity",
    "Kind",
    "Publisher",
    "RunStates",
    "SyncPublisher",
    "TaskFinished",
    "TaskStateChanged",
    "Update",
    "subscribe",
]

# The Kafka client logs every failed attempt; without this handler, programs that do not configure logging print them.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())
