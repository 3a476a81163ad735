"""A condition as a tree, and what starts a DAG in words."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from tidegate.daemon.read_model.inputs import InputRow
from tidegate.schemas.conditions.condition import (
    AllOf,
    AnyOf,
    Condition,
    DatasetRef,
    Leaf,
    NOf,
    PatternRef,
    describe_condition,
    met_by_inputs,
)
from tidegate.schemas.queries.counting import counted_text
from tidegate.schemas.queries.dag_pages import DagRow
from tidegate.schemas.text import age, span
from tidegate.schemas.timetable.spec import Timetable, describe

Branch = tuple[str, "Sequence[Branch]"]
"""A label and its branches."""


MET, OPEN = "✓", "○"


def condition_branch(condition: Condition, pending: Mapping[Leaf, InputRow], now: datetime) -> Branch:
    """A condition with a mark at each part that holds. `pending` are the inputs with pending events."""
    mark = MET if met_by_inputs(condition, pending) else OPEN
    match condition:
        case DatasetRef() | PatternRef():
            return f"{mark} {leaf_text(condition)}  ({_waiting(pending.get(condition), now)})", ()
        case AllOf(of):
            return f"{mark} all of", [condition_branch(operand, pending, now) for operand in of]
        case AnyOf(of):
            return f"{mark} any of", [condition_branch(operand, pending, now) for operand in of]
        case NOf(k, of):
            return f"{mark} {k} of", [condition_branch(operand, pending, now) for operand in of]


def leaf_text(leaf: Leaf) -> str:
    """An input with its filter and expiry: `lake://a where rows > 0, expires after 6h`."""
    name = leaf.uri if isinstance(leaf, DatasetRef) else leaf.pattern
    expiry = f"expires after {span(leaf.expire_after_s)}" if leaf.expire_after_s else ""
    return f"{name} {', '.join(filter(None, (f'where {leaf.where}' if leaf.where else '', expiry)))}".rstrip()


def _waiting(row: InputRow | None, now: datetime) -> str:
    if row is None or row.oldest_at is None:
        return "nothing pending"
    events = "1 event" if row.events == 1 else f"{counted_text(row.events)} events, the oldest"
    return f"{events} pending for {age(row.oldest_at, now)}"


def condition_text(condition: Condition) -> str:
    """A condition as its author wrote it."""
    written = describe_condition(condition)
    return written[1:-1] if isinstance(condition, AllOf | AnyOf) else written


def schedule_text(condition: Condition | None, timetable: Timetable | None, *, together: bool = False) -> str:
    """The schedule in words, datasets first; empty where only requests start them."""
    parts = [condition_text(condition)] if condition is not None else []
    return (", and " if together else ", or ").join([*parts, describe(timetable)] if timetable is not None else parts)


def schedule_of(dag: DagRow, timetable: Timetable | None) -> str:
    """The schedule of a listed DAG in words."""
    return schedule_text(_condition(dag), timetable, together=dag.together)


def _condition(dag: DagRow) -> Condition | None:
    """None also where the stored condition cannot be read."""
    try:
        condition: Condition | None = msgspec.convert(dag.schedule, Condition | None)
    except msgspec.ValidationError:
        return None
    return condition
