"""Whether a task is ready to run, and if not, what it waits for. `why-not` prints the answer that the scheduler acts on."""

from collections.abc import Callable
from enum import Enum, auto

from tidegate.handlers.tasks.trigger_rules import GIVE_UP, RUN, SKIP, WAIT, evaluate, evaluate_teardown
from tidegate.handlers.tasks.upstream_counts import count_states, upstream_of
from tidegate.schemas.dag import TriggerRule
from tidegate.schemas.graph import Node
from tidegate.schemas.state import TASK_ENDED, TaskState
from tidegate.schemas.view import Instance


class WaitsFor(Enum):
    """What a task waits for before it is ready."""

    UPSTREAM = auto()
    """Its trigger rule is not decided yet."""

    PREVIOUS_RUN = auto()
    """`depends_on_past` or `wait_for_downstream`: the run before has to permit it."""

    LIST = auto()
    """The task that returns the list it is mapped over has not ended."""

    INSTANCES = auto()
    """It is mapped, and not all of its instances have ended."""


def readiness(node: Node, instance: Instance, state_of: Callable[[int], TaskState]) -> WaitsFor | TaskState:
    """What a task in state `none` waits for, or the state it gets: `scheduled`, `skipped` or `upstream_failed`.

    `state_of` gives the states of tasks upstream.
    """
    if instance.elements:
        return WaitsFor.INSTANCES
    decision = apply_rule(node, instance, state_of)
    if decision is WAIT:
        return WaitsFor.UPSTREAM
    if instance.waits_for_past and decision is not GIVE_UP:
        return WaitsFor.PREVIOUS_RUN
    if decision is RUN and node.over is not None and state_of(node.over) not in TASK_ENDED:
        return WaitsFor.LIST
    return decision


def apply_rule(node: Node, instance: Instance, state_of: Callable[[int], TaskState]) -> TaskState:
    """The decision of the trigger rule; that of a teardown depends on its setups."""
    if node.setups:
        return evaluate_teardown(count_states([state_of(setup) for setup in node.setups]), upstream_of(instance))
    return evaluate(node.task.trigger_rule, upstream_of(instance))


def may_rule_out(rule: TriggerRule, state: TaskState) -> bool:
    """Whether a task upstream that ends in `state` can by itself decide that the task never runs.

    A rule that the last end upstream decides so is also decided so by the only one.
    """
    return evaluate(rule, count_states([state])) in (SKIP, GIVE_UP)
