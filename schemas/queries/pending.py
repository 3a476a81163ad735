"""Pending events of locked DAGs, read by their read plans."""

from collections.abc import Mapping, Set
from datetime import datetime
from typing import NamedTuple

from tidegate.schemas.conditions.condition import Condition, inputs, met_by_uris
from tidegate.schemas.queries import datasets
from tidegate.schemas.queries.db import Db
from tidegate.schemas.read_plan import EventPlan, ReadPlan
from tidegate.schemas.view import PendingEvent

COUNTED = 10
"""The pending events of a DAG are counted up to this multiple of the limit of its plan."""

Events = Mapping[str, tuple[PendingEvent, ...]]
"""By DAG, oldest first."""


class Rest(NamedTuple):
    """The pending events that a plan left: their number, counted up to a bound, and the arrival of the newest."""

    events: int
    newest_at: datetime


class Pending(NamedTuple):
    """`events` by DAG; `rest`: of DAGs whose pending events were not all read. `arrived`: the new events of other DAGs."""

    events: Events
    rest: Mapping[str, Rest]
    arrived: Events


async def read(db: Db, plans: Mapping[str, ReadPlan], low_watermarks: Mapping[str, int]) -> Pending:
    """Execute each plan from the low watermark of its DAG on."""
    wanted = {dag_id: plan.events for dag_id, plan in plans.items() if plan.events is not None}
    unmet = await _unmet(db, wanted, low_watermarks)
    ready = {dag_id: plan for dag_id, plan in wanted.items() if dag_id not in unmet}
    events = await _read(db, ready, low_watermarks)
    full = {dag_id: plan for dag_id, plan in ready.items() if len(events[dag_id]) >= plan.limit}
    if of_each := [dag_id for dag_id, plan in full.items() if plan.of_each]:
        events = {**events, **merged(events, await datasets.first_pending(db, of_each, low_watermarks))}
    limits = {dag_id: COUNTED * plan.limit for dag_id, plan in full.items() if plan.with_rest}
    rest = _rest(events, await datasets.count_pending(db, limits, low_watermarks) if limits else {})
    new = [(dag_id, *key) for dag_id in sorted(plans.keys() - ready) for key in plans[dag_id].just_arrived]
    return Pending(events, rest, await datasets.read_pending(db, new) if new else {})


async def _unmet(db: Db, wanted: Mapping[str, EventPlan], low_watermarks: Mapping[str, int]) -> set[str]:
    """DAGs whose pending datasets do not meet the condition: a growing queue of an input is not read while another is missing."""
    conditions = {dag_id: plan.only_if_met for dag_id, plan in wanted.items() if plan.only_if_met is not None}
    if not conditions:
        return set()
    uris = await datasets.pending_uris(db, {dag_id: low_watermarks[dag_id] for dag_id in conditions})
    return {dag_id for dag_id, condition in conditions.items() if _is_useless(condition, uris.get(dag_id, set()))}


def _is_useless(condition: Condition, uris: Set[str]) -> bool:
    """Whether events of these datasets neither meet the condition nor belong to a dataset that it does not name."""
    leaves = inputs(condition)
    return not met_by_uris(condition, uris) and all(any(leaf.covers(uri) for leaf in leaves) for uri in uris)


async def _read(db: Db, ready: Mapping[str, EventPlan], low_watermarks: Mapping[str, int]) -> Events:
    none: Events = dict.fromkeys(ready, ())
    return {**none, **await datasets.pending(db, ready, low_watermarks)} if ready else none


def _rest(events: Events, counts: Mapping[str, tuple[int, datetime]]) -> Mapping[str, Rest]:
    return {
        dag_id: Rest(count - len(events[dag_id]), newest_at)
        for dag_id, (count, newest_at) in counts.items()
        if count > len(events[dag_id])
    }


def merged(events: Events, first: Events) -> Events:
    """The events with the oldest of each dataset, each once."""
    by_id = {dag_id: {event.dataset_event_id: event for event in (*more, *events[dag_id])} for dag_id, more in first.items()}
    return {dag_id: tuple(of[id_] for id_ in sorted(of)) for dag_id, of in by_id.items()}
