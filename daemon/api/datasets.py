"""Datasets and their events. A URI is a parameter of the query, for it has slashes."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tidegate.daemon.api.idempotency import id_of_key
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Act, Call, Params, Read
from tidegate.daemon.gateway.lists import Id, Keyset, Listed
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.dataset_graph import DatasetGraph, read_graph
from tidegate.daemon.read_model.datasets import EventOutcomes, Retention, read_events, read_retention
from tidegate.daemon.read_model.event import EventLife, read_life
from tidegate.events.shared_publisher import SharedPublisher
from tidegate.schemas.effect.audit import OF_DATASET
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import datasets
from tidegate.schemas.queries.datasets import DatasetRow
from tidegate.schemas.queries.db import Db

BY_URI = Keyset("datasets", ("uri",), (str,))
EVENTS = Keyset("events", ("event.number",), (Id,))

SOURCE = "tidegate-api"

PUBLISH_S = 10.0
"""The time that Kafka has for an event."""


class DatasetList(Listed, frozen=True):
    """The datasets, or some of them."""

    prefix: Annotated[str | None, Meta(description="Only URIs that begin with this text.")] = None


class EventList(Listed, frozen=True, kw_only=True):
    """The events of a dataset."""

    uri: Annotated[str, Meta(description="The URI of the dataset.")]
    event_id: Annotated[str | None, Meta(description="Only events with this id of their producer.")] = None


class EventPath(Params, frozen=True):
    """An event by its number in the ledger."""

    number: Annotated[Id, Meta(description="The number of the event in the ledger.")]


class DataGraphOf(Params, frozen=True):
    """A dataset or a DAG in the middle of the graph; the first datasets without one."""

    uri: Annotated[str, Meta(description="The dataset in the middle of the graph.")] = ""
    dag_id: Annotated[str, Meta(description="The DAG in the middle of the graph.")] = ""


class NewEvent(Params, frozen=True):
    """An event; source and id identify it.

    Without an id it gets a new one; with an Idempotency-Key one that only repeats of the request get.
    """

    uri: str
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    event_id: str | None = None
    source: str = SOURCE


class Published(msgspec.Struct, frozen=True):
    """The identity of an event that Kafka has stored."""

    uri: str
    source: str
    id: str


async def list_datasets(db: Db, call: Call[DatasetList]) -> Page[DatasetRow]:
    """List datasets by URI, each with its usual interval, and whether its next event is late.

    `last_event_at` is the arrival of the last event; 10,001 `events` stand for more than 10,000.
    """
    params = call.params
    return BY_URI.page(await datasets.list_datasets(db, params.prefix, params.limit + 1, BY_URI.first(params)), params)


async def list_events(db: Db, call: Call[EventList]) -> Page[EventOutcomes]:
    """List the newest events of a dataset, with the outcome of each for every subscribed DAG."""
    params = call.params
    found = await read_events(db, params.uri, params.event_id, before=EVENTS.first(params), limit=params.limit + 1)
    return EVENTS.page(found, params)


async def show_retention(db: Db, _call: Call[Params]) -> Retention:
    """Show from which day on all events are kept. Earlier ones are kept only where they are still needed."""
    return await read_retention(db)


async def show_event(db: Db, call: Call[EventPath]) -> EventLife:
    """Show the whole life of an event: its outcome for each DAG, the runs that consumed it, and what followed from them."""
    return await read_life(db, call.params.number)


async def show_dataset_graph(db: Db, call: Call[DataGraphOf]) -> DatasetGraph:
    """Show DAGs and datasets as a graph: which DAG updates which dataset, and which ones that starts."""
    return await read_graph(db, call.params.uri, call.params.dag_id)


async def publish_event(call: Call[Params], body: NewEvent) -> Published:
    """Publish that a dataset has new data; returns when Kafka has stored the event. The same id again has no effect."""
    settings, event_id = call.settings, body.event_id or id_of_key(call, body)
    if not settings.kafka_servers:
        raise RequestError("this server cannot publish: its setting TIDEGATE_KAFKA_SERVERS is empty")
    publisher = SharedPublisher(
        call.service.sink,
        settings.kafka_servers,
        source=body.source,
        topic_prefix=settings.topic_prefix,
        timeout_s=PUBLISH_S,
    )
    identity = await publisher.dataset_updated(body.uri, body.extra, event_id=event_id)
    return Published(body.uri, identity.source, identity.id)


ENDPOINTS = (
    Read("/datasets", Right.VIEW, list_datasets, DatasetList, Page[DatasetRow]),
    Read("/datasets/graph", Right.VIEW, show_dataset_graph, DataGraphOf, DatasetGraph),
    Read("/events", Right.VIEW, list_events, EventList, Page[EventOutcomes]),
    Read("/events/retention", Right.VIEW, show_retention, Params, Retention),
    Read("/events/{number}", Right.VIEW, show_event, EventPath, EventLife),
    Act(
        "POST",
        "/events",
        Right.OPERATE,
        publish_event,
        Params,
        NewEvent,
        Published,
        status=201,
        location="/events?uri={uri}&event_id={id}",
        resumes=True,
        does="published an event",
        announces="asked to publish an event",
        about=OF_DATASET,
    ),
)
