"""The inputs of a DAG's condition with their pending events."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime

import msgspec

from tidegate.handlers.scheduling.inputs import inspect_events
from tidegate.schemas.conditions.condition import (
    ANY_TIME,
    Condition,
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
from tidegate.schemas.queries import datasets, pending
from tidegate.schemas.queries.db import Db
from tidegate.schemas.text import span
from tidegate.schemas.view import PendingEvent


class InputRow(msgspec.Struct, frozen=True):
    """An input of a condition with its number of pending events, and when the oldest arrived."""

    input: str
    events: int
    oldest_at: datetime | None


async def read_inputs(db: Db, dag_id: str, spec: DagSpec) -> list[InputRow]:
    """Every input of the condition, in its order."""
    if spec.schedule is None:
        return []
    if inspects_events(spec):
        events, _ = await pending.of_dag(db, dag_id, with_details=True)
        return input_rows(spec.schedule, spec, events, db.now)
    counts = {row.uri: (row.events, row.oldest_at) for row in await datasets.pending_counts(db, dag_id)}
    names = map(describe_condition, inputs(spec.schedule))
    return [InputRow(name, *counts.get(name, (0, None))) for name in names]


def input_rows(condition: Condition, spec: DagSpec, events: Sequence[PendingEvent], now: datetime) -> list[InputRow]:
    """The inputs with those of the events that count for them. No event counts if the condition cannot be evaluated."""
    arrivals: dict[Leaf, list[datetime]] = {leaf: [] for leaf in inputs(condition)}
    with suppress(FilterError):
        for input_ in inspect_events(graph_of(0, spec), events, now).inputs:
            for leaf in input_.leaves:
                arrivals[leaf].append(input_.event.arrived_at)
    return [InputRow(describe_condition(leaf), len(times), min(times, default=None)) for leaf, times in arrivals.items()]


def with_events(condition: Condition, rows: Sequence[InputRow]) -> Mapping[Leaf, InputRow]:
    """The inputs that have pending events."""
    return {leaf: row for leaf, row in zip(inputs(condition), rows, strict=True) if row.events}


def missing_datasets(spec: DagSpec | None, rows: Sequence[InputRow]) -> list[str]:
    """The datasets of a condition without a pending event that counts. `rows` are those of `read_inputs`."""
    if spec is None or spec.schedule is None:
        return []
    leaves = zip(inputs(spec.schedule), rows, strict=True)
    return list(dict.fromkeys(leaf.uri for leaf, row in leaves if isinstance(leaf, DatasetRef) and not row.events))


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
    texts = [words % span(seconds) for words, seconds in parts if seconds is not None]
    return ", ".join([*texts, _deadline_text(timing.deadline)] if timing.deadline else texts)


def _deadline_text(deadline: InputDeadlineSpec) -> str:
    words = {"run_anyway": "a run anyway", "skip": "no run", "alert": "an alert"}[deadline.fallback]
    if deadline.at is not None:
        return f"{words} if they are not there by {deadline.at:%H:%M} {deadline.timezone}"
    return f"{words} if they are not there {span(deadline.after_s or 0)} after the first event"
