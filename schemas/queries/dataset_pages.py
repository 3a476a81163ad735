"""Datasets as pages show them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from tidegate.schemas.queries.counting import COUNTED
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("dataset_pages")

LATE_S = 60.0
"""An event that comes so much later is not late."""

RHYTHM_EVENTS = 300
"""The events that a rhythm is read from: more than a day of one each five minutes."""

BURST_S = 60.0
"""Events that are less apart are one burst."""

LEAST_INTERVALS, LEAST_SPAN_S = 8, 86_400.0
"""Between bursts: less than this is no rhythm."""


class Rhythm(msgspec.Struct, frozen=True):
    """When events of a dataset come.

    `last_event_at` is the arrival of the last one; `interval_s` and `longest_s` are the mean and the longest time between the
    last bursts, None where these are too few or too young.
    """

    last_event_at: datetime | None = None
    interval_s: float | None = None
    longest_s: float | None = None

    def is_late(self, now: datetime) -> bool:
        """Whether the next event takes twice as long as usual, longer than each of the last ones, and longer than a minute."""
        if self.last_event_at is None or self.interval_s is None or self.longest_s is None:
            return False
        return now - self.last_event_at > timedelta(seconds=max(LATE_S, 2 * self.interval_s, self.longest_s))


class DatasetLine(msgspec.Struct, frozen=True):
    """A dataset. `pending` counts events for all its consumers: exactly up to 10,000."""

    uri: str
    is_active: bool
    producers: int
    consumers: int
    pending: int
    rhythm: Rhythm


class ProducerRow(msgspec.Struct, frozen=True):
    """A task whose outlet a dataset is."""

    dag_id: str
    task_id: str


class ConsumerRow(msgspec.Struct, frozen=True):
    """A DAG that a dataset starts, with its pending events, and when the oldest arrived. `pending` 10,001: more than 10,000."""

    dag_id: str
    pending: int
    oldest_at: datetime | None


class EdgeRow(msgspec.Struct, frozen=True):
    """A DAG with a dataset: one that it updates, or one that starts it."""

    dag_id: str
    uri: str
    is_outlet: bool


async def first(db: Db, limit: int) -> list[str]:
    """The first datasets by URI that a DAG consumes or produces."""
    return [row[0] for row in await db.fetch(_SQL["first"], limit)]


async def edges(db: Db, dag_ids: Sequence[str], uris: Sequence[str], limit: int) -> list[EdgeRow]:
    """The first edges of these DAGs and of these datasets."""
    return [EdgeRow(*row) for row in await db.fetch(_SQL["edges"], dag_ids, uris, limit)]


async def list_lines(db: Db, search: str | None, after: str | None, limit: int) -> list[DatasetLine]:
    """Datasets by URI after `after`. Each URI contains `search`."""
    rows = await db.fetch(_SQL["list"], search, after, limit, COUNTED)
    rhythms = await rhythms_of(db, [row["uri"] for row in rows])
    return [DatasetLine(**row, rhythm=rhythms[row["uri"]]) for row in rows]


async def rhythms_of(db: Db, uris: Collection[str]) -> Mapping[str, Rhythm]:
    """By URI; unknown datasets are left out."""
    rows = await db.fetch(_SQL["rhythm"], list(uris), RHYTHM_EVENTS, BURST_S, LEAST_INTERVALS, LEAST_SPAN_S)
    return {row[0]: Rhythm(*row[1:]) for row in rows}


async def search(db: Db, text: str, limit: int) -> list[str]:
    """The first datasets whose URI contains a text."""
    return [row[0] for row in await db.fetch(_SQL["search"], text, limit)]


async def list_producers(db: Db, uri: str, limit: int) -> list[ProducerRow]:
    return [ProducerRow(*row) for row in await db.fetch(_SQL["producers"], uri, limit)]


async def list_consumers(db: Db, uri: str, limit: int) -> list[ConsumerRow]:
    return [ConsumerRow(*row) for row in await db.fetch(_SQL["consumers"], uri, limit, COUNTED)]
