"""The dataset events of a task that succeeded: of its outlets, and further events of its attempt."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from msgspec import to_builtins

from tidegate.handlers.tasks.advance import Move
from tidegate.schemas.effect.task import OutletUpdated
from tidegate.schemas.graph import Graph, element_of, label
from tidegate.schemas.view import RunView
from tidegate.schemas.wire.event import MAX_ID_BYTES, MAX_ID_LENGTH, PRODUCER, Producer


def dataset_events(run: RunView, graph: Graph, move: Move, now: datetime) -> Iterator[OutletUpdated]:
    """The events of a success.

    A mapped task updates its outlets once, after all of its instances. An instance that gives an outlet an extra updates it, too.
    """
    task, element, produced = graph.node(move.index).task, element_of(move.index), move.produced
    producer = Producer(dag_id=run.dag_id, run_id=run.run_id, task_id=task.task_id, map_index=element)
    extras = produced.outlets if produced else {}
    for uri in task.outlets:
        if element is None or extras.get(uri):
            id_ = announced_event_id(run, label(task.task_id, move.index), uri, task.task_id)
            yield OutletUpdated(uri, id_, _with_producer(extras.get(uri, {}), producer), now)
    if produced:
        for number, event in enumerate(produced.events):
            id_ = published_event_id(produced.submission_id, number)
            yield OutletUpdated(event.uri, id_, _with_producer(event.extra, producer), now)


def announced_event_id(run: RunView, name: str, uri: str, task_id: str) -> str:
    """The id of the event of an outlet of an instance. It changes each time that a user has its task announced again."""
    id_, number = outlet_event_id(run.dag_id, run.run_id, name, uri), (run.announced or {}).get(task_id)
    return id_ if number is None else str(uuid5(NAMESPACE_OID, f"{id_}#{number}"))


def outlet_event_id(dag_id: str, run_id: str, task_id: str, uri: str) -> str:
    """The id of the event of an outlet, the same at every try: its origin, or a UUID derived from an origin that is too long."""
    name = f"{dag_id}/{run_id}/{task_id}/{uri}"
    fits = len(name) <= MAX_ID_LENGTH and len(name.encode()) <= MAX_ID_BYTES
    return name if fits else str(uuid5(NAMESPACE_OID, name))


def published_event_id(submission_id: UUID, number: int) -> str:
    """The id of an event that an attempt publishes; `number` counts them from 0."""
    return f"{submission_id}/{number}"


def _with_producer(extra: Mapping[str, Any], producer: Producer) -> dict[str, Any]:
    return {**extra, PRODUCER: to_builtins(producer)}
