"""The list of datasets, and one dataset: its producers, its consumers, and what became of its events."""

from collections.abc import Sequence

from msgspec import Struct

from tidegate.daemon.api.datasets import BY_URI, EVENTS
from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Call, Read
from tidegate.daemon.gateway.lists import Listed
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.arrival import Arrival, read_arrivals
from tidegate.daemon.read_model.causes import Cause, further, read_causes
from tidegate.daemon.read_model.datasets import EventOutcomes, ignored_text, read_events
from tidegate.daemon.web.pages.run import SHOWN_EXTRA
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.error import NotFoundError
from tidegate.schemas.queries import dataset_pages, datasets
from tidegate.schemas.queries.dataset_pages import ConsumerRow, DatasetLine, ProducerRow, Rhythm
from tidegate.schemas.queries.db import Db

SHOWN = 100
"""The producers and the consumers of a page."""


class DatasetList(Listed, frozen=True):
    """`search` is a part of the URI."""

    search: str | None = None


class DatasetParams(Listed, frozen=True, kw_only=True):
    """A dataset by its URI; `event_id`: only events with this id of their producer."""

    uri: str = ""
    event_id: str | None = None


class DatasetScreen(Struct, frozen=True):
    """A dataset with its producers, its consumers and its last events.

    `arrivals` are the DAGs that update it, with reasons, and `causes` what they wait for in the end. `ignored` says which fields
    of its events this version ignores.
    """

    rhythm: Rhythm
    ignored: str
    arrivals: Sequence[Arrival]
    causes: Sequence[Cause]
    producers: Sequence[ProducerRow]
    has_more_producers: bool
    consumers: Sequence[ConsumerRow]
    has_more_consumers: bool
    events: Page[EventOutcomes]

    @property
    def other_producers(self) -> Sequence[ProducerRow]:
        """The producers of DAGs that are not among the arrivals."""
        shown = {arrival.dag_id for arrival in self.arrivals}
        return [row for row in self.producers if row.dag_id not in shown]


async def read_list(db: Db, call: Call[DatasetList]) -> Page[DatasetLine]:
    params = call.params
    lines = await dataset_pages.list_lines(db, params.search or None, BY_URI.first(params), params.limit + 1)
    return BY_URI.page(lines, params)


async def read_one(db: Db, call: Call[DatasetParams]) -> DatasetScreen:
    params = call.params
    if params.uri not in await datasets.read(db, [params.uri]):
        raise NotFoundError(f"there is no dataset {params.uri!r}; `tidegate datasets list` shows all")
    producers = await dataset_pages.list_producers(db, params.uri, SHOWN + 1)
    consumers = await dataset_pages.list_consumers(db, params.uri, SHOWN + 1)
    chosen = params.uri, params.event_id or None
    lines = await read_events(db, *chosen, before=EVENTS.first(params), limit=params.limit + 1, extra_bytes=SHOWN_EXTRA)
    arrivals = await read_arrivals(db, producers[:SHOWN])
    return DatasetScreen(
        rhythm=(await dataset_pages.rhythms_of(db, [params.uri]))[params.uri],
        ignored=ignored_text(fields) if (fields := await datasets.ignored_fields(db, params.uri)) else "",
        arrivals=arrivals,
        causes=await read_causes(db, sorted(further(arrivals))),
        producers=producers[:SHOWN],
        has_more_producers=len(producers) > SHOWN,
        consumers=consumers[:SHOWN],
        has_more_consumers=len(consumers) > SHOWN,
        events=EVENTS.page(lines, params),
    )


LIST = Screen(Read("/datasets", Right.VIEW, read_list, DatasetList, Page[DatasetLine]), "datasets.html")
ONE = Screen(Read("/dataset", Right.VIEW, read_one, DatasetParams, DatasetScreen), "dataset.html")
