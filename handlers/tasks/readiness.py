"""Whether a task's turn has come, and if not, what it waits for. The answer that decides is the answer that explains."""

from collections.abc import Callable
from enum import Enum, auto

from tidegate.handlers.tasks.trigger_rules import GIVE_UP, RUN, WAIT, judge, judge_teardown
from tidegate.handlers.tasks.upstream_counts import tally, upstream_of
from tidegate.schemas.graph import Node
from tidegate.schemas.state import TASK_ENDED, TaskState
from tidegate.schemas.view import Instance


class Hold(Enum):
    """What a task waits for before its turn comes."""

    UPSTREAM = auto()
    """Its trigger rule cannot decide yet."""

    PAST = auto()
    """The run before is to allow it."""

    LIST = auto()
    """What it is mapped over has not ended."""

    INSTANCES = auto()
    """It is mapped, and has instances that have not all ended."""


def turn(node: Node, instance: Instance, state_of: Callable[[int], TaskState]) -> Hold | TaskState:
    """`scheduled`: its turn has come; `skipped` or `upstream_failed`: it never will.

    `state_of` gives the states of tasks before it. Of a task whose state is `none`.
    """
    if instance.elements:
        return Hold.INSTANCES
    verdict = rule(node, instance, state_of)
    if verdict is WAIT:
        return Hold.UPSTREAM
    if instance.waits_for_past and verdict is not GIVE_UP:
        return Hold.PAST
    if verdict is RUN and node.over is not None and state_of(node.over) not in TASK_ENDED:
        return Hold.LIST
    return verdict


def rule(node: Node, instance: Instance, state_of: Callable[[int], TaskState]) -> TaskState:
    """What its trigger rule says; a teardown goes by its setups."""
    if node.setups:
        return judge_teardown(tally([state_of(setup) for setup in node.setups]), upstream_of(instance))
    return judge(node.task.trigger_rule, upstream_of(instance))
