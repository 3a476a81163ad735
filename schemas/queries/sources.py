"""The input of attempts: their run, and the DAG file of its version."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from tidegate.schemas.dag import DagFile, ModuleSource
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.run import ConsumedEvent, RunContext

_SQL = load("sources")

MAX_EVENTS = 100
"""The most events of a run that are read with its context; more are read apart, page by page."""

MAX_EXTRA_BYTES = 1 << 16
"""The most extra of these events."""

PAGE = 1000
PAGE_BYTES = 1 << 20
"""The most events of a page, and the most extra, unless it has one event."""

_EVENT_COLUMNS = len(ConsumedEvent.__struct_fields__)


class StoredEvent(msgspec.Struct, frozen=True):
    """As `ConsumedEvent`; its extra is JSON that was not decoded."""

    uri: str
    source: str
    id: str
    occurred_at: datetime
    extra: msgspec.Raw
    source_dag_id: str | None
    source_run_id: str | None
    source_task_id: str | None
    source_map_index: int | None


class RunSource(msgspec.Struct, frozen=True):
    """A run as its tasks read it, and the DAG file of its version. `has_results`: some of its tasks have a result.

    `events_of` is the id of a run with more events than `MAX_EVENTS`, or more extra, which the context lacks.
    """

    context: RunContext
    version_id: int
    file: DagFile
    has_results: bool
    events_of: int | None = None


async def of_runs(db: Db, dag_run_ids: Collection[int]) -> Mapping[int, RunSource]:
    """The input of the attempts of these runs."""
    rows = await db.fetch(_SQL["contexts"], list(dag_run_ids), MAX_EVENTS, MAX_EXTRA_BYTES)
    files = await of_versions(db, {row["version_id"] for row in rows})
    return {id_: _source(list(of_run), files) for id_, of_run in groupby(rows, itemgetter("id"))}


async def event_pages(db: Db, dag_run_id: int) -> list[list[int]]:
    """The ids of the events that a run consumed, in the order of their times, in pages.

    A page has at most `PAGE` events and `PAGE_BYTES` of extra; a larger event is a page of its own. The rows do not change: each
    page may be read in a transaction of its own.
    """
    pages: list[list[int]] = []
    left = 0
    for id_, extra_bytes in await db.fetch(_SQL["event_sizes"], dag_run_id):
        left -= extra_bytes
        if left < 0 or len(pages[-1]) == PAGE:
            pages.append([])
            left = PAGE_BYTES - extra_bytes
        pages[-1].append(id_)
    return pages


async def page_of_events(db: Db, ids: Sequence[int]) -> list[StoredEvent]:
    """These events, in this order."""
    rows = await db.fetch(_SQL["events"], ids)
    return [
        StoredEvent(uri, source, id_, at, msgspec.Raw(extra.encode()), *producer)
        for uri, source, id_, at, extra, *producer in rows
    ]


async def of_versions(db: Db, version_ids: Collection[int]) -> Mapping[int, DagFile]:
    """The DAG files of these versions, from the memory of the process if they are in it."""
    found = {id_: db.memory.files[id_] for id_ in version_ids if id_ in db.memory.files}
    if unknown := [id_ for id_ in version_ids if id_ not in found]:
        modules = await _modules(db, unknown)
        for id_, path, source in await db.fetch(_SQL["files"], unknown):
            found[id_] = DagFile(path, source, tuple(modules[id_]))
            db.memory.files.remember(id_, found[id_], len(source) + sum(len(module.source) for module in modules[id_]))
    return found


async def _modules(db: Db, version_ids: Collection[int]) -> Mapping[int, list[ModuleSource]]:
    modules: dict[int, list[ModuleSource]] = defaultdict(list)
    for version_id, path, digest, source in await db.fetch(_SQL["modules"], version_ids):
        modules[version_id].append(ModuleSource(path, digest, source))
    return modules


def _source(rows: list[Any], files: Mapping[int, DagFile]) -> RunSource:
    id_, version_id, has_many, has_results, conf, dag_id, run_id, run_type, run_after, logical_date, start, end, *_ = rows[0]
    context = RunContext(
        dag_id=dag_id,
        run_id=run_id,
        run_type=run_type,
        run_after=run_after,
        params=conf,
        events=tuple(_event(*row[-_EVENT_COLUMNS:]) for row in rows if row["uri"] is not None) if not has_many else (),
        logical_date=logical_date,
        data_interval_start=start,
        data_interval_end=end,
    )
    return RunSource(context, version_id, files[version_id], has_results, id_ if has_many else None)


def _event(*columns: Any) -> ConsumedEvent:
    return ConsumedEvent(**dict(zip(ConsumedEvent.__struct_fields__, columns, strict=True)))
