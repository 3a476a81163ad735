"""The datasets that are late, and that a DAG with events of others waits for."""

from collections.abc import Sequence

import msgspec

from tidegate.schemas.queries import dataset_pages, now
from tidegate.schemas.queries.dataset_pages import LATE_S, Rhythm
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.now import ExpectedDataset


class LateDatasets(msgspec.Struct, frozen=True):
    """`has_more`: there are DAGs with pending events that were not looked at."""

    datasets: Sequence["LateDataset"]
    has_more: bool


class LateDataset(msgspec.Struct, frozen=True):
    """A late dataset with the DAGs that wait for it, the longest wait first."""

    uri: str
    rhythm: Rhythm
    waiting: Sequence[ExpectedDataset]


async def read_late(db: Db, limit: int) -> LateDatasets:
    """The longest wait first."""
    expected, has_more = await now.expected(db, LATE_S)
    rhythms = await dataset_pages.rhythms_of(db, {row.uri for row in expected})
    late = [uri for uri in dict.fromkeys(row.uri for row in expected) if rhythms[uri].is_late(db.now)]
    found = [LateDataset(uri, rhythms[uri], [row for row in expected if row.uri == uri]) for uri in late[:limit]]
    return LateDatasets(found, has_more)
