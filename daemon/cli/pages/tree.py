"""Trees in text: the condition of a DAG, and the contents of a DAG file."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from tidegate.daemon.cli.pages import output
from tidegate.daemon.read_model.condition import Branch, condition_branch
from tidegate.daemon.read_model.inputs import InputRow, with_events
from tidegate.daemon.terminal import printable
from tidegate.schemas.conditions.condition import (
    Condition,
)
from tidegate.schemas.dag import BaseTask, TriggerRule


def lines(branch: Branch) -> Iterator[str]:
    """The tree, line by line."""
    label, below = branch
    yield label
    for index, child in enumerate(below):
        last = index == len(below) - 1
        first, *rest = lines(child)
        yield ("└── " if last else "├── ") + first
        yield from (("    " if last else "│   ") + line for line in rest)


def print_condition(title: str, condition: Condition, rows: Sequence[InputRow], now: datetime) -> None:
    """A section with the condition as a tree. `rows` are its inputs in their order."""
    output.write()
    output.heading(title)
    for line in lines(condition_branch(condition, with_events(condition, rows), now)):
        output.write(line)


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
