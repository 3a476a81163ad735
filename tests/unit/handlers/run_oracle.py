"""An oracle of the trigger rules: recomputes every task from the states of all tasks, until nothing changes."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tests.unit.handlers.simulated_run import End, state_of
from tidegate.schemas.dag import EmptyTask, TaskSpec
from tidegate.schemas.state import TaskState

NONE, REMOVED = TaskState.NONE, TaskState.REMOVED
S, F, K, UF = TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED
GOING = TaskState.RUNNING
"""Ready and not ended: scheduled, queued, running or up for retry."""
ENDED = (S, F, K, UF)


class Reading:
    """`states` are those of the tasks of a run; `held` are the tasks that the previous run has yet to permit.

    `returns` is what tasks return that succeed, `elements` are the instances of mapped tasks.
    """

    def __init__(self, tasks: Sequence[TaskSpec], returns: Mapping[str, Any], absent: Collection[str] = ()) -> None:
        self.returns = returns
        self.elements: dict[str, list[TaskState]] = {}
        self.tasks = {task.task_id: task for task in tasks}
        self.states = {task.task_id: REMOVED if task.task_id in absent else NONE for task in tasks}
        self.held = {t.task_id for t in tasks if t.depends_on_past or t.wait_for_downstream}
        self.settle()

    def release(self, task_ids: Collection[str]) -> None:
        self.held -= set(task_ids)
        self.settle()

    def take(self, ends: Mapping[str, tuple[int, End]]) -> None:
        """Attempts end in one batch: by label (`load[3]` for instances), the try number and the end."""
        for label, (number, end) in ends.items():
            task_id, _, element = label.rstrip("]").partition("[")
            if state_of(end) is F and number <= self.tasks[task_id].retries:
                continue
            if element:
                self.elements[task_id][int(element)] = state_of(end)
                continue
            wrong = isinstance(end, tuple) and not set(end) <= set(self.below(task_id))
            self.states[task_id] = F if wrong else state_of(end)
        for task_id, (_, end) in ends.items():
            if isinstance(end, tuple) and self.states.get(task_id) is S:
                for each in self.unchosen(task_id, end):
                    self.states[each] = K if self.states[each] is NONE else self.states[each]
        self.settle()

    def unchosen(self, task_id: str, chosen: Sequence[str]) -> list[str]:
        if not chosen:
            return [each for each in self.after(task_id) if not self.tasks[each].teardown_of]
        return [each for each in self.below(task_id) if each not in chosen and not any(each in self.after(c) for c in chosen)]

    def below(self, task_id: str) -> list[str]:
        return [each for each, task in self.tasks.items() if task_id in task.upstream]

    def after(self, task_id: str) -> set[str]:
        return {each for direct in self.below(task_id) for each in (direct, *self.after(direct))}

    def settle(self) -> None:
        before: dict[str, TaskState] = {}
        while before != self.states:
            before = dict(self.states)
            for task_id, task in self.tasks.items():
                if self.states[task_id] is NONE:
                    self.states[task_id] = self.next_of(task)
                elif self.states[task_id] is GOING and task_id in self.elements:
                    self.states[task_id] = together(self.elements[task_id])

    def next_of(self, task: TaskSpec) -> TaskState:
        upstream = [self.states[each] for each in task.upstream if self.states[each] is not REMOVED]
        setups = [self.states[each] for each in task.teardown_of if self.states[each] is not REMOVED]
        verdict = of_teardown(setups, upstream) if task.teardown_of else of_rule(str(task.trigger_rule), upstream)
        if task.task_id in self.held and verdict is not UF:
            return NONE
        if verdict is GOING and task.over is not None:
            return self.mapped(task.task_id, task.over)
        return S if verdict is GOING and isinstance(task, EmptyTask) else verdict

    def mapped(self, task_id: str, over: str) -> TaskState:
        """A mapped task that is ready waits for its list, and gets an instance per element."""
        if self.states[over] not in (*ENDED, REMOVED):
            return NONE
        if self.states[over] in (K, REMOVED):
            return K
        returned = (self.elements.get(over) or self.returns.get(over)) if self.states[over] is S else None
        if not isinstance(returned, list) or not returned:
            return K if returned == [] else F
        self.elements[task_id] = [GOING] * len(returned)
        return GOING

    def fails(self) -> bool:
        """Whether a leaf failed. Teardowns count only if they decide about the run."""
        silent = {t.task_id for t in self.tasks.values() if t.teardown_of and not t.on_failure_fail_run}
        leaves = [each for each in self.tasks if each not in silent and set(self.below(each)) <= silent]
        return any(self.states[leaf] in (F, UF) for leaf in leaves)


def together(elements: Sequence[TaskState]) -> TaskState:
    """The state of a mapped task from those of its instances."""
    if GOING in elements:
        return GOING
    return F if F in elements else S if S in elements else K


def of_teardown(setups: Sequence[TaskState], upstream: Sequence[TaskState]) -> TaskState:
    if any(state not in ENDED for state in upstream):
        return NONE
    if S in setups:
        return GOING
    return UF if any(state is not K for state in setups) else K


def of_rule(rule: str, upstream: Sequence[TaskState]) -> TaskState:
    """The state of a task given the states upstream; states of unfinished tasks are all alike."""
    if not upstream or rule == "always":
        return GOING
    over, bad = all(state in ENDED for state in upstream), F in upstream or UF in upstream
    certain = {
        "all_success": UF if bad else K if K in upstream else None,
        "all_failed": K if S in upstream or K in upstream else None,
        "all_done": None,
        "all_done_min_one_success": K if K in upstream else None,
        "all_skipped": K if S in upstream or bad else None,
        "one_success": GOING if S in upstream else None,
        "one_failed": GOING if bad else None,
        "one_done": GOING if S in upstream or F in upstream else None,
        "none_failed": UF if bad else None,
        "none_failed_min_one_success": UF if bad else None,
        "none_skipped": K if K in upstream else None,
    }
    at_last: dict[str, TaskState] = {
        "all_done_min_one_success": GOING if S in upstream else UF,
        "one_success": K if set(upstream) == {K} else UF,
        "one_failed": K,
        "one_done": K,
        "none_failed_min_one_success": GOING if S in upstream else K,
    }
    return certain[rule] or (at_last.get(rule, GOING) if over else NONE)
