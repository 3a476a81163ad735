"""The columns of `dataset_event` that name the task which produced it."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tidegate.schemas.message import Message
from tidegate.schemas.wire.event import PRODUCER, PRODUCER_SOURCE, DatasetUpdated, Producer


def producer_of(message: Message[DatasetUpdated]) -> Producer | None:
    """The task that produced an event of Tidegate; None for events of other programs, which can carry any extra."""
    if message.id is None or message.id.source != PRODUCER_SOURCE:
        return None
    try:
        return msgspec.convert(message.body.extra.get(PRODUCER), Producer | None)
    except msgspec.ValidationError:
        return None


def producer_columns(producers: Sequence[Producer | None]) -> Sequence[Sequence[Any]]:
    """The columns of these producers, in the order of the fields; empty without any, as `unnest` fills shorter ones with NULL."""
    if not any(producers):
        return [()] * len(Producer.__struct_fields__)
    return [[getattr(producer, name, None) for producer in producers] for name in Producer.__struct_fields__]


def with_producer(row: Iterable[Any]) -> Sequence[Any]:
    """The row with the producer in place of its columns, which are the last ones."""
    *others, dag_id, run_id, task_id, map_index = row
    if dag_id is None:
        return *others, None
    return *others, Producer(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index)
