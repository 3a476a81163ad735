"""Kafka in and out: what programs need to publish events and to follow runs."""

import logging

from tidegate.events.publisher import Publisher, Update
from tidegate.events.run_states import RunStates
from tidegate.events.subscriber import GapError, subscribe
from tidegate.events.sync_publisher import SyncPublisher
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
    "Kind",
    "Publisher",
    "RunStates",
    "SyncPublisher",
    "TaskFinished",
    "TaskStateChanged",
    "Update",
    "subscribe",
]

# The Kafka client logs every failed attempt. A program that configures logging sees it; one that does not is told by our errors.
logging.getLogger("aiokafka").addHandler(logging.NullHandler())
