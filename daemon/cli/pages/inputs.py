"""The inputs of a DAG's condition with their pending events."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.scheduling.inputs import inspect_events
from tidegate.schemas.conditions.condition import (
    ANY_TIME,
    DatasetRef,
    InputDeadlineSpec,
    Leaf,
    Timing,
    describe_condition,
    inputs,
)
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.error import FilterError
from tidegate.schemas.graph import graph_of, inspects_events
from tidegate.schemas.queries import datasets
from tidegate.schemas.queries.datasets import PendingRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.timetable.text import span
from tidegate.schemas.view import PendingEvent

MOST_READ = 10_000
"""Pending events that are read of a DAG; the page leaves out the others."""


class InputRow(msgspec.Struct, frozen=True):
    """An input of a condition with its number of pending events, and when the oldest arrived."""

    input: str
    events: int
    oldest_at: datetime | None


async def present(db: Db, dag_id: str, spec: DagSpec) -> Mapping[Leaf, PendingRow]:
    """The inputs of the condition that have pending events."""
    if spec.schedule is None:
        return {}
    if not inspects_events(spec):
        rows = {row.uri: row for row in await datasets.pending_counts(db, dag_id)}
        return {leaf: rows[leaf.uri] for leaf in inputs(spec.schedule) if isinstance(leaf, DatasetRef) and leaf.uri in rows}
    return by_input(spec, await datasets.oldest_pending(db, dag_id, MOST_READ), db.now)


def by_input(spec: DagSpec, events: Sequence[PendingEvent], now: datetime) -> Mapping[Leaf, PendingRow]:
    """The events by input. Empty for a condition that cannot be evaluated."""
    found: dict[Leaf, list[PendingEvent]] = defaultdict(list)
    try:
        for each in inspect_events(graph_of(0, spec), events, now).inputs:
            for leaf in each.leaves:
                found[leaf].append(each.event)
    except FilterError:
        return {}
    return {
        leaf: PendingRow(describe_condition(leaf), len(of), min(event.arrived_at for event in of)) for leaf, of in found.items()
    }


def rows(spec: DagSpec, there: Mapping[Leaf, PendingRow]) -> list[InputRow]:
    """All inputs of the condition, in its order."""
    found = []
    for leaf in inputs(spec.schedule) if spec.schedule is not None else ():
        row = there.get(leaf)
        found.append(InputRow(describe_condition(leaf), row.events if row else 0, row.oldest_at if row else None))
    return found


def there(spec: DagSpec, rows: Sequence[InputRow]) -> Mapping[Leaf, PendingRow]:
    """Those inputs of the condition of which events wait."""
    leaves = inputs(spec.schedule) if spec.schedule is not None else ()
    known = zip(leaves, rows, strict=True)
    return {leaf: PendingRow(row.input, row.events, row.oldest_at) for leaf, row in known if row.oldest_at is not None}


def timing_text(timing: Timing) -> str:
    """The timing of a condition in words; empty without timing."""
    if timing == ANY_TIME:
        return ""
    parts = (
        ("all within %s of each other", timing.within_s),
        ("after %s of quiet", timing.quiet_for_s),
        ("at most %s after they are there", timing.max_wait_s),
        ("at most one run in %s", timing.min_interval_s),
    )
    said = [words % span(seconds) for words, seconds in parts if seconds is not None]
    return ", ".join([*said, _deadline_text(timing.deadline)] if timing.deadline else said)


def _deadline_text(deadline: InputDeadlineSpec) -> str:
    words = {"run_anyway": "a run anyway", "skip": "no run", "alert": "an alert"}[deadline.fallback]
    if deadline.at is not None:
        return f"{words} if they are not there by {deadline.at:%H:%M} {deadline.timezone}"
    return f"{words} if they are not there {span(deadline.after_s or 0)} after the first event"
