"""Pending events of locked DAGs, read by their read plans."""

from collections.abc import Mapping
from typing import NamedTuple

from tidegate.schemas.conditions.condition import met_by_uris
from tidegate.schemas.queries import datasets
from tidegate.schemas.queries.db import Db
from tidegate.schemas.read_plan import EventPlan, ReadPlan
from tidegate.schemas.view import PendingEvent


class Pending(NamedTuple):
    """`events` by DAG; `complete`: the DAGs whose pending events were all read. `arrived`: the new events of other DAGs."""

    events: Mapping[str, tuple[PendingEvent, ...]]
    complete: frozenset[str]
    arrived: Mapping[str, tuple[PendingEvent, ...]]


async def read(db: Db, plans: Mapping[str, ReadPlan], low_watermarks: Mapping[str, int]) -> Pending:
    """Execute each plan from the low watermark of its DAG on."""
    wanted = {dag_id: plan.events for dag_id, plan in plans.items() if plan.events is not None}
    unmet = await _unmet(db, wanted, low_watermarks)
    ready = {dag_id: plan for dag_id, plan in wanted.items() if dag_id not in unmet}
    events = await _read(db, ready, low_watermarks)
    complete = (dag_id for dag_id, plan in ready.items() if plan.limit is None or len(events[dag_id]) < plan.limit)
    new = [(dag_id, *key) for dag_id in sorted(plans.keys() - ready) for key in plans[dag_id].just_arrived]
    return Pending(events, frozenset(complete), await datasets.read_pending(db, new) if new else {})


async def _unmet(db: Db, wanted: Mapping[str, EventPlan], low_watermarks: Mapping[str, int]) -> set[str]:
    """DAGs whose pending datasets do not meet the condition: a growing queue of an input is not read while another is missing."""
    conditions = {dag_id: plan.only_if_met for dag_id, plan in wanted.items() if plan.only_if_met is not None}
    if not conditions:
        return set()
    uris = await datasets.pending_uris(db, {dag_id: low_watermarks[dag_id] for dag_id in conditions})
    return {dag_id for dag_id, condition in conditions.items() if not met_by_uris(condition, uris.get(dag_id, set()))}


async def _read(
    db: Db, ready: Mapping[str, EventPlan], low_watermarks: Mapping[str, int]
) -> Mapping[str, tuple[PendingEvent, ...]]:
    plain = {dag_id: low_watermarks[dag_id] for dag_id, plan in ready.items() if not plan.with_details}
    detailed = {dag_id: plan.limit for dag_id, plan in ready.items() if plan.with_details}
    found: dict[str, tuple[PendingEvent, ...]] = dict.fromkeys(ready, ())
    if plain:
        found |= await datasets.lock_pending(db, plain)
    if detailed:
        found |= await datasets.lock_pending_details(db, detailed, low_watermarks)
    return found
