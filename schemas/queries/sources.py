"""The input of attempts: their run, and the DAG file of its version."""

from collections.abc import AsyncIterator, Collection, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.run import ConsumedEvent, RunContext

_SQL = load("sources")

MAX_EVENTS = 100
"""The most events of a run that are read with its context; more are read apart, page by page."""

MAX_EXTRA_BYTES = 1 << 16
"""The most extra of these events."""

PAGE = 20
"""Events that are in memory at the same time: each has up to a mebibyte of extra."""

DagFile = tuple[str, str]
"""(path, source)"""


class RunSource(msgspec.Struct, frozen=True):
    """A run as its tasks read it, and the DAG file of its version. `has_results`: some of its tasks have a result.

    `events_of` is the id of a run with more events than `MAX_EVENTS`, or more extra, which the context lacks.
    """

    context: RunContext
    version_id: int
    dag_path: str
    source: str
    has_results: bool
    events_of: int | None = None


async def of_runs(db: Db, dag_run_ids: Collection[int]) -> Mapping[int, RunSource]:
    """The input of the attempts of these runs."""
    rows = await db.fetch(_SQL["contexts"], list(dag_run_ids), MAX_EVENTS, MAX_EXTRA_BYTES)
    files = await of_versions(db, {row["version_id"] for row in rows})
    return {id_: _source(list(of_run), files) for id_, of_run in groupby(rows, itemgetter("id"))}


async def pages_of_events(db: Db, dag_run_id: int) -> AsyncIterator[list[ConsumedEvent]]:
    """The events that a run consumed, in the order of their times; in a transaction."""
    page: list[ConsumedEvent] = []
    async for row in db.connection.cursor(_SQL["events"], dag_run_id, prefetch=PAGE):
        page.append(_event(*row))
        if len(page) == PAGE:
            yield page
            page = []
    if page:
        yield page


async def of_versions(db: Db, version_ids: Collection[int]) -> Mapping[int, DagFile]:
    """The DAG files of these versions, from the memory of the process if they are in it."""
    found = {id_: db.memory.files[id_] for id_ in version_ids if id_ in db.memory.files}
    if unknown := [id_ for id_ in version_ids if id_ not in found]:
        for id_, path, source in await db.fetch(_SQL["files"], unknown):
            found[id_] = (path, source)
            db.memory.files.remember(id_, (path, source), len(source))
    return found


def _source(rows: list[Any], files: Mapping[int, DagFile]) -> RunSource:
    id_, version_id, has_many, has_results, conf, dag_id, run_id, run_type, run_after, logical_date, start, end, *_ = rows[0]
    context = RunContext(
        dag_id=dag_id,
        run_id=run_id,
        run_type=run_type,
        run_after=run_after,
        params=conf,
        events=tuple(_event(*row[-5:]) for row in rows if row["uri"] is not None) if not has_many else (),
        logical_date=logical_date,
        data_interval_start=start,
        data_interval_end=end,
    )
    return RunSource(context, version_id, *files[version_id], has_results, id_ if has_many else None)


def _event(uri: str, source: str, id_: str, occurred_at: Any, extra: dict[str, Any]) -> ConsumedEvent:
    return ConsumedEvent(uri=uri, source=source, id=id_, occurred_at=occurred_at, extra=extra)
