"""Pending events of locked DAGs, read by their read plans."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import accumulate, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tidegate.schemas.conditions.condition import met_by_uris
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.read_plan import EventPlan, ReadPlan
from tidegate.schemas.view import PendingEvent

if TYPE_CHECKING:
    from asyncpg import Record

_SQL = load("pending")

SHOWN = EventPlan(limit=10_000, of_each=True, with_rest=True)
"""The pending events that explanations and pages read, with the number of the others."""

Events = Mapping[str, tuple[PendingEvent, ...]]
"""By DAG, oldest first."""


class QueuedEvent(NamedTuple):
    """A pending event before its extra is read, which has `extra_bytes` as text."""

    dataset_id: int
    dataset_event_id: int
    uri: str
    occurred_at: datetime
    arrived_at: datetime
    extra_bytes: int


Rows = Mapping[str, Sequence[QueuedEvent]]
"""By DAG, oldest first."""


class Rest(NamedTuple):
    """The pending events that a plan left: their number, counted up to its limit, and the arrival of the newest."""

    events: int
    newest_at: datetime


class Pending(NamedTuple):
    """`events` by DAG; `rest`: of DAGs whose pending events were not all read. `arrived`: the new events of other DAGs."""

    events: Events
    rest: Mapping[str, Rest]
    arrived: Events


async def read(
    db: Db, plans: Mapping[str, ReadPlan], low_watermarks: Mapping[str, int], oldest_datasets: Mapping[str, int | None]
) -> Pending:
    """Execute each plan from the low watermark of its DAG on. `oldest_datasets`: the dataset of the oldest pending event."""
    wanted = {dag_id: plan.events for dag_id, plan in plans.items() if plan.events is not None}
    unmet = await _unmet(db, wanted, low_watermarks, oldest_datasets)
    ready = {dag_id: plan for dag_id, plan in wanted.items() if dag_id not in unmet}
    rows, full = await _planned(db, ready, low_watermarks) if ready else ({}, set())
    rest = await _rest(db, {dag_id: ready[dag_id] for dag_id in full if ready[dag_id].with_rest}, rows, low_watermarks)
    extras = await _extras(db, [rows[dag_id] for dag_id, plan in ready.items() if plan.with_details])
    arrived = await _arrived(db, {dag_id: plan for dag_id, plan in plans.items() if dag_id not in ready})
    return Pending({dag_id: _events(queued, extras) for dag_id, queued in rows.items()}, rest, arrived)


async def of_dag(db: Db, dag_id: str, *, with_details: bool) -> tuple[tuple[PendingEvent, ...], Rest | None]:
    """The oldest pending events of a DAG, and the oldest of each dataset; the rest. Nothing is locked."""
    plan = msgspec.structs.replace(SHOWN, with_details=with_details)
    found = await read(db, {dag_id: ReadPlan(events=plan)}, {dag_id: 0}, {})
    return found.events[dag_id], found.rest.get(dag_id)


async def _unmet(
    db: Db, wanted: Mapping[str, EventPlan], low_watermarks: Mapping[str, int], oldest_datasets: Mapping[str, int | None]
) -> set[str]:
    """DAGs whose pending datasets do not meet the condition: a growing queue of an input is not read while another is missing.

    A DAG is read nevertheless if its oldest event belongs to a dataset that its version does not reference: the event was queued
    while the DAG file changed, and its decision discards it.
    """
    conditions = {dag_id: plan.only_if_met for dag_id, plan in wanted.items() if plan.only_if_met is not None}
    if not conditions:
        return set()
    found: dict[str, dict[int, str]] = defaultdict(dict)
    rows = await db.fetch(_SQL["referenced"], list(conditions), [low_watermarks[dag_id] for dag_id in conditions])
    for dag_id, dataset_id, uri in rows:
        found[dag_id][dataset_id] = uri
    return {
        dag_id
        for dag_id, condition in conditions.items()
        if oldest_datasets[dag_id] in found[dag_id] and not met_by_uris(condition, set(found[dag_id].values()))
    }


async def _planned(db: Db, plans: Mapping[str, EventPlan], low_watermarks: Mapping[str, int]) -> tuple[Rows, set[str]]:
    """The rows of each DAG, and the DAGs that may have more pending events than these."""
    watermarks = [low_watermarks[dag_id] for dag_id in plans]
    found = await db.fetch(_SQL["oldest"], list(plans), [plan.limit for plan in plans.values()], watermarks)
    oldest = {**dict.fromkeys(plans, ()), **_by_dag(found)}
    full = {dag_id for dag_id, plan in plans.items() if len(oldest[dag_id]) >= plan.limit}
    if of_each := [dag_id for dag_id in full if plans[dag_id].of_each]:
        firsts = await db.fetch(_SQL["oldest_of_each"], of_each, [low_watermarks[dag_id] for dag_id in of_each])
        oldest |= {dag_id: _merged(oldest[dag_id], queued) for dag_id, queued in _by_dag(firsts).items()}
    limited = {dag_id: within(oldest[dag_id], plan.max_bytes) for dag_id, plan in plans.items() if plan.with_details}
    full |= {dag_id for dag_id, queued in limited.items() if len(queued) < len(oldest[dag_id])}
    return {**oldest, **limited}, full


def _merged(rows: Iterable[QueuedEvent], more: Iterable[QueuedEvent]) -> list[QueuedEvent]:
    return sorted({*rows, *more}, key=attrgetter("dataset_event_id"))


def within(rows: Sequence[QueuedEvent], max_bytes: int) -> Sequence[QueuedEvent]:
    """The first row of each dataset, then the oldest of the others, until their extra has `max_bytes`; at least one row."""
    if sum(row.extra_bytes for row in rows) <= max_bytes:
        return rows
    firsts = {row.dataset_id: row for row in reversed(rows)}
    ordered = sorted(rows, key=lambda row: (firsts[row.dataset_id] is not row, row.dataset_event_id))
    totals = accumulate(row.extra_bytes for row in ordered)
    count = sum(1 for _ in takewhile(lambda total: total <= max_bytes, totals))
    return sorted(ordered[: max(count, 1)], key=attrgetter("dataset_event_id"))


async def _rest(db: Db, plans: Mapping[str, EventPlan], rows: Rows, low_watermarks: Mapping[str, int]) -> Mapping[str, Rest]:
    if not plans:
        return {}
    most = [len(rows[dag_id]) + plan.limit for dag_id, plan in plans.items()]
    counted = await db.fetch(_SQL["count"], list(plans), most, [low_watermarks[dag_id] for dag_id in plans])
    return {
        dag_id: Rest(count - len(rows[dag_id]), newest_at) for dag_id, count, newest_at in counted if count > len(rows[dag_id])
    }


async def _arrived(db: Db, plans: Mapping[str, ReadPlan]) -> Events:
    """The new events of DAGs whose queue is not read."""
    keys = [(dag_id, *key) for dag_id in sorted(plans) for key in plans[dag_id].just_arrived]
    rows = await db.fetch(_SQL["arrived"], *zip(*keys, strict=True)) if keys else []
    extras = {row["dataset_event_id"]: row["extra"] for row in rows if row["extra"] is not None}
    return {dag_id: _events(of, extras) for dag_id, of in _by_dag(rows).items()}


async def _extras(db: Db, rows: Iterable[Sequence[QueuedEvent]]) -> Mapping[int, str]:
    """By event, its extra, which all DAGs share in memory."""
    ids = sorted({row.dataset_event_id for of in rows for row in of})
    return {row[0]: row[1] for row in await db.fetch(_SQL["extras"], ids)} if ids else {}


def _events(rows: Iterable[QueuedEvent], extras: Mapping[int, str]) -> tuple[PendingEvent, ...]:
    return tuple(PendingEvent(*row[:-1], extras.get(row.dataset_event_id, "{}")) for row in rows)


def _by_dag(rows: "Sequence[Record]") -> dict[str, list[QueuedEvent]]:
    found: dict[str, list[QueuedEvent]] = defaultdict(list)
    for row in rows:
        found[row[0]].append(QueuedEvent._make(row[1:7]))
    return dict(found)
