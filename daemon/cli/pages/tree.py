"""Trees in text: the condition of a DAG, and the contents of a DAG file."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.inputs import InputRow, with_events
from tidegate.daemon.terminal import printable
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
from tidegate.schemas.dag import BaseTask, TriggerRule
from tidegate.schemas.timetable.spec import Timetable, describe
from tidegate.schemas.timetable.text import age, span

Branch = tuple[str, "Sequence[Branch]"]
"""A label and its branches."""

MET, OPEN = "✓", "○"


def lines(branch: Branch) -> Iterator[str]:
    """The tree, line by line."""
    label, below = branch
    yield label
    for index, child in enumerate(below):
        last = index == len(below) - 1
        first, *rest = lines(child)
        yield ("└── " if last else "├── ") + first
        yield from (("    " if last else "│   ") + line for line in rest)


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


def print_condition(title: str, condition: Condition, rows: Sequence[InputRow], now: datetime) -> None:
    """A section with the condition as a tree. `rows` are its inputs in their order."""
    output.write()
    output.heading(title)
    for line in lines(condition_branch(condition, with_events(condition, rows), now)):
        output.write(line)


def leaf_text(leaf: Leaf) -> str:
    """An input with its filter and expiry: `lake://a where rows > 0, expires after 6h`."""
    name = leaf.uri if isinstance(leaf, DatasetRef) else leaf.pattern
    expiry = f"expires after {span(leaf.expire_after_s)}" if leaf.expire_after_s else ""
    return f"{name} {', '.join(filter(None, (f'where {leaf.where}' if leaf.where else '', expiry)))}".rstrip()


def _waiting(row: InputRow | None, now: datetime) -> str:
    if row is None or row.oldest_at is None:
        return "nothing pending"
    events = "1 event" if row.events == 1 else f"{row.events} events, the oldest"
    return f"{events} pending for {age(row.oldest_at, now)}"


def condition_text(condition: Condition) -> str:
    """A condition as its author wrote it."""
    written = describe_condition(condition)
    return written[1:-1] if isinstance(condition, AllOf | AnyOf) else written


def schedule_text(condition: Condition | None, timetable: Timetable | None, *, together: bool = False) -> str:
    """What starts runs, datasets first; empty where only requests start them."""
    parts = [condition_text(condition)] if condition is not None else []
    return (", and " if together else ", or ").join([*parts, describe(timetable)] if timetable is not None else parts)


def after_text(task: BaseTask) -> str:
    """The upstream tasks of a task, and its trigger rule unless that is `all_success`."""
    before = ", ".join(task.upstream)
    return before if task.trigger_rule is TriggerRule.ALL_SUCCESS or not before else f"{before} ({task.trigger_rule})"


def role_text(task: BaseTask) -> str:
    """Whether a task is a setup or a teardown, and what it is mapped over."""
    teardown = f"teardown of {', '.join(task.teardown_of)}" if task.teardown_of else ""
    mapped = f"for each of {task.over}" if task.over is not None else ""
    return ", ".join(filter(None, ("setup" if task.is_setup else "", teardown, mapped)))


def task_branches(tasks: Sequence[BaseTask], label: Callable[[BaseTask], str]) -> Sequence[Branch]:
    """The tasks in their order. A group stands where its first task would, with its tasks below it."""
    outermost: list[Branch] = []
    of_groups: dict[str, list[Branch]] = {"": outermost}
    groups = {task.group for task in tasks}

    def of_group(group: str) -> list[Branch]:
        if group not in of_groups:
            around = max((other for other in groups if group.startswith(f"{other}.")), key=len, default="")
            of_groups[group] = []
            of_group(around).append((f"group {group}", of_groups[group]))
        return of_groups[group]

    for task in tasks:
        of_group(task.group).append((label(task), ()))
    return outermost


def problem(path: str, line: int | None, reason: str) -> str:
    """`file:line: reason`, or `file: reason` without a line."""
    return printable(f"{path}: {reason}" if line is None else f"{path}:{line}: {reason}")
