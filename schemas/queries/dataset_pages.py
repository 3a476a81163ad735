"""Datasets as pages show them."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from tidegate.schemas.queries.counting import COUNTED
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("dataset_pages")


class DatasetLine(msgspec.Struct, frozen=True):
    """A dataset. `last_event_at` is the arrival of the last event, `interval_s` the mean time between the last ones.

    `pending` counts events for all its consumers: exactly up to 10,000.
    """

    uri: str
    is_active: bool
    last_event_at: datetime | None
    interval_s: float | None
    producers: int
    consumers: int
    pending: int


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
    return [DatasetLine(*row) for row in await db.fetch(_SQL["list"], search, after, limit, COUNTED)]


async def list_producers(db: Db, uri: str, limit: int) -> list[ProducerRow]:
    return [ProducerRow(*row) for row in await db.fetch(_SQL["producers"], uri, limit)]


async def list_consumers(db: Db, uri: str, limit: int) -> list[ConsumerRow]:
    return [ConsumerRow(*row) for row in await db.fetch(_SQL["consumers"], uri, limit, COUNTED)]
