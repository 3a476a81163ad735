"""Whether a task is ready to run, and if not, what it waits for. `why-not` prints the answer that the scheduler acts on."""

from collections.abc import Callable
from functools import cache

from tidegate.handlers.tasks.trigger_rules import GIVE_UP, RUN, SKIP, WAIT, evaluate, evaluate_teardown
from tidegate.handlers.tasks.upstream_counts import count_states, upstream_of
from tidegate.schemas.dag import TriggerRule
from tidegate.schemas.explain.reasons import InstancesNotDone, PreviousRunNotDone, UpstreamNotDone
from tidegate.schemas.graph import Node
from tidegate.schemas.state import TASK_ENDED, TaskState
from tidegate.schemas.view import Instance

NotReady = type[UpstreamNotDone | PreviousRunNotDone | InstancesNotDone]


def readiness(node: Node, instance: Instance, state_of: Callable[[int], TaskState]) -> NotReady | TaskState:
    """Why a task in state `none` is not ready, or the state it gets: `scheduled`, `skipped` or `upstream_failed`.

    `state_of` gives the states of tasks upstream. The scheduler needs only the type of a reason. Its values, which only `why-not`
    prints, would cost O(upstream) at each decision.
    """
    if instance.elements:
        return InstancesNotDone
    decision = apply_rule(node, instance, state_of)
    if decision is WAIT:
        return UpstreamNotDone
    if instance.waits_for_past and decision is not GIVE_UP:
        return PreviousRunNotDone
    if decision is RUN and node.over is not None and state_of(node.over) not in TASK_ENDED:
        return UpstreamNotDone
    return decision


def apply_rule(node: Node, instance: Instance, state_of: Callable[[int], TaskState]) -> TaskState:
    """The decision of the trigger rule; that of a teardown depends on its setups."""
    if node.setups:
        return evaluate_teardown(count_states([state_of(setup) for setup in node.setups]), upstream_of(instance))
    return evaluate(node.task.trigger_rule, upstream_of(instance))


@cache
def may_rule_out(rule: TriggerRule, state: TaskState) -> bool:
    """Whether a task upstream that ends in `state` can by itself decide that the task never runs.

    Evaluated with this task as the only one upstream: a state that rules a task out as the last of several also does so alone.
    """
    return evaluate(rule, count_states([state])) in (SKIP, GIVE_UP)
