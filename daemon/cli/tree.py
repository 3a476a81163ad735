"""Trees in text: what a DAG waits for, and what a DAG file holds."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from tidegate.daemon.cli.moment import age
from tidegate.daemon.cli.output import printable
from tidegate.schemas.dag import AllOf, AnyOf, Condition, DatasetRef, holds
from tidegate.schemas.dataset import text
from tidegate.schemas.queries.datasets import PendingRow

Branch = tuple[str, "Sequence[Branch]"]
"""A label and what hangs below it."""

MET, OPEN = "✓", "○"


def lines(branch: Branch) -> Iterator[str]:
    """The label, and below it the branches, joined by lines."""
    label, below = branch
    yield label
    for index, child in enumerate(below):
        last = index == len(below) - 1
        first, *rest = lines(child)
        yield ("└── " if last else "├── ") + first
        yield from (("    " if last else "│   ") + line for line in rest)


def condition_branch(condition: Condition, pending: Mapping[str, PendingRow], now: datetime) -> Branch:
    """A DAG's condition, each part with whether it holds now."""
    mark = MET if holds(condition, pending.keys()) else OPEN
    match condition:
        case DatasetRef(uri):
            return f"{mark} {uri}  ({_waiting(pending.get(uri), now)})", ()
        case AllOf(of):
            return f"{mark} all of", [condition_branch(operand, pending, now) for operand in of]
        case AnyOf(of):
            return f"{mark} any of", [condition_branch(operand, pending, now) for operand in of]


def _waiting(row: PendingRow | None, now: datetime) -> str:
    if row is None:
        return "nothing pending"
    events = "1 event" if row.events == 1 else f"{row.events} events, the oldest"
    return f"{events} pending for {age(row.oldest_at, now)}"


def condition_text(condition: Condition) -> str:
    """A condition as its author wrote it."""
    written = text(condition)
    return written if isinstance(condition, DatasetRef) else written[1:-1]


def problem(path: str, line: int | None, reason: str) -> str:
    """`file:line: reason`, or `file: reason` where no line is to blame."""
    return printable(f"{path}: {reason}" if line is None else f"{path}:{line}: {reason}")
