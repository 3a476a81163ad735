"""The list of datasets, and one dataset: its producers, its consumers, and what became of its events."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from tidegate.daemon.gateway import cursor
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Call, Params, Read
from tidegate.daemon.permissions import Right
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.error import NotFoundError
from tidegate.schemas.queries import dataset_pages, datasets
from tidegate.schemas.queries.dataset_pages import ConsumerRow, DatasetLine, ProducerRow
from tidegate.schemas.queries.datasets import EventRow, OutcomeRow
from tidegate.schemas.queries.db import Db

SHOWN = 100
"""The producers and the consumers of a page."""


class DatasetList(Params, frozen=True):
    """`search` is a part of the URI."""

    search: str | None = None
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class DatasetParams(Params, frozen=True, kw_only=True):
    """A dataset by its URI; `event_id`: only events with this id of their producer."""

    uri: str = ""
    event_id: str | None = None
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class EventLine(Struct, frozen=True):
    """An event, and its outcome for each DAG that was subscribed to its dataset."""

    event: EventRow
    outcomes: Sequence[OutcomeRow]


class DatasetScreen(Struct, frozen=True):
    """The page."""

    producers: Sequence[ProducerRow]
    consumers: Sequence[ConsumerRow]
    events: Page[EventLine]


async def read_list(db: Db, call: Call[DatasetList]) -> Page[DatasetLine]:
    wanted = call.params
    after = cursor.decode(wanted.cursor, tuple[str])[0] if wanted.cursor else None
    lines = await dataset_pages.list_lines(db, wanted.search or None, after, wanted.limit + 1)
    return cursor.page(lines, wanted.limit, lambda line: (line.uri,))


async def read_one(db: Db, call: Call[DatasetParams]) -> DatasetScreen:
    wanted = call.params
    if wanted.uri not in await datasets.read(db, [wanted.uri]):
        raise NotFoundError(f"there is no dataset {wanted.uri!r}; `tidegate datasets list` shows all")
    before = cursor.decode(wanted.cursor, tuple[int])[0] if wanted.cursor else None
    events = await datasets.events(db, wanted.uri, wanted.event_id or None, wanted.limit + 1, before)
    outcomes = await datasets.outcomes(db, [event.number for event in events])
    lines = [EventLine(event, outcomes.get(event.number, ())) for event in events]
    return DatasetScreen(
        producers=await dataset_pages.list_producers(db, wanted.uri, SHOWN),
        consumers=await dataset_pages.list_consumers(db, wanted.uri, SHOWN),
        events=cursor.page(lines, wanted.limit, lambda line: (line.event.number,)),
    )


LIST = Screen(Read("/datasets", Right.VIEW, read_list, DatasetList, Page[DatasetLine]), "datasets.html")
ONE = Screen(Read("/dataset", Right.VIEW, read_one, DatasetParams, DatasetScreen), "dataset.html")
