"""The rows of one run in memory, changed by effects as the database changes them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any
from uuid import UUID

import msgspec

from tests.unit.handlers.well_formed import well_formed
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import InsertRun, RunMoved, UpdateRun
from tidegate.schemas.effect.submission import AcceptSubmission, EndSubmission, InsertSubmission
from tidegate.schemas.effect.task import InsertTask, MoveTask, StoreResult, TaskMoved, UpdateTask
from tidegate.schemas.graph import Graph, Node, element_index
from tidegate.schemas.state import TASK_ACTIVE, TASK_ENDED, TASK_FAILED, SubmissionState, TaskState
from tidegate.schemas.view import Instance, RunView, SubmissionView
from tidegate.schemas.wire.event import DagRunStateChanged, TaskStateChanged


class RunRows:
    """`touched` are the tasks that the last decision wrote, `others` all effects that are not about rows of this run.

    `results` is what is kept of what tasks returned, `index` where each instance is found; those of mapped tasks as `load[3]`.
    """

    def __init__(self, run: RunView, graph: Graph) -> None:
        self.graph = graph
        self.run = run
        self.index = {node.task.task_id: position for position, node in enumerate(graph.nodes)}
        self.rows: dict[int, InsertTask] = {}
        self.tasks: dict[int, Instance] = {}
        self.submissions: dict[UUID, SubmissionView] = {}
        self.results: dict[int, Any] = {}
        self.published: list[TaskStateChanged] = []
        self.journal: list[DagRunStateChanged] = []
        self.touched: set[int] = set()
        self.others: list[Effect] = []

    def lengths(self) -> dict[int, int]:
        """The lengths of the lists that tasks returned; a mapped task returns a list over its instances."""
        lists = {index: len(result) for index, result in self.results.items() if isinstance(result, list)}
        return lists | {index: task.elements for index, task in self.tasks.items() if task.elements}

    def apply(self, effects: Iterable[Effect]) -> None:
        self.touched = set()
        for effect in well_formed(effects):
            if run_of(effect) in (None, self.run.id):
                self._apply(effect)
            else:
                self.others.append(effect)

    def _apply(self, effect: Effect) -> None:
        match effect:
            case InsertRun() | UpdateRun():
                self.run = _changed(self.run, effect)
            case InsertTask() | UpdateTask() | MoveTask():
                self._write(effect)
            case InsertSubmission(id_, run_id, index, try_number):
                self.submissions[id_] = SubmissionView(
                    submission_id=id_,
                    dag_run_id=run_id,
                    task_index=index,
                    try_number=try_number,
                    state=SubmissionState.INTENT,
                    token="",
                )
            case AcceptSubmission(id_):
                self.submissions[id_] = msgspec.structs.replace(self.submissions[id_], state=SubmissionState.ACCEPTED)
            case EndSubmission(id_, state):
                self.submissions[id_] = msgspec.structs.replace(self.submissions[id_], state=state)
            case _:
                self._keep(effect)

    def _keep(self, effect: Effect) -> None:
        match effect:
            case TaskMoved(_, moved):
                self.published.append(moved)
            case RunMoved(_, moved_run):
                self.journal.append(moved_run)
            case StoreResult(_, index, value):
                self.results[index] = value
            case _:
                self.others.append(effect)

    def _write(self, effect: InsertTask | UpdateTask | MoveTask) -> None:
        index = effect.task_index if isinstance(effect, MoveTask) else effect.instance.index
        self.touched.add(index)
        match effect:
            case InsertTask(instance=instance):
                self.rows[index] = effect
                self.index[self.graph.label(index)] = index
                self.tasks[index] = _counted_on(instance, self.tasks.get(index))
            case UpdateTask(instance=instance):
                self.tasks[index] = copy(instance)
            case MoveTask(_, _, state, try_number):
                self.tasks[index] = msgspec.structs.replace(self.tasks[index], state=state, try_number=try_number)

    def check(self, *, decided: bool = True) -> None:
        """Check the counters of the run and its tasks against the states of the tasks, also for tasks that are `decided`."""
        self.check_run()
        for index, node in enumerate(self.graph.nodes):
            above = self._awaited(index, node)
            if decided or self.tasks[index].state is TaskState.NONE:
                assert counted(self.tasks[index]) == expected(above)

    def _awaited(self, index: int, node: Node) -> list[TaskState]:
        """The states of the instances that a task waits for: its own, once it is mapped."""
        if elements := self.tasks[index].elements:
            return [self.tasks[element_index(index, element)].state for element in range(elements)]
        return [self.tasks[self.index[task_id]].state for task_id in node.task.upstream]

    def check_run(self) -> None:
        states = [self.tasks[index].state for index in range(len(self.graph.nodes))]
        leaves = [states[index] for index, node in enumerate(self.graph.nodes) if node.decisive]
        assert self.run.unfinished == sum(state not in TASK_ENDED for state in states)
        assert self.run.failed_leaves == sum(state in TASK_FAILED for state in leaves)
        assert self.run.active_tasks == sum(task.state in TASK_ACTIVE for task in self.tasks.values())
        assert self.run.task_seq == len(self.published)
        assert self.run.state_seq == len(self.journal)


def run_of(effect: Effect) -> int | None:
    """The run of an effect; None where it has none."""
    return effect.id if isinstance(effect, InsertRun | UpdateRun) else getattr(effect, "dag_run_id", None)


def counted(task: Instance) -> tuple[int, ...]:
    return task.awaited, task.success, task.failed, task.skipped, task.upstream_failed


def expected(upstream: Sequence[TaskState]) -> tuple[int, ...]:
    """The upstream counts for these states."""
    seen = Counter(upstream)
    awaited = len(upstream) - seen[TaskState.REMOVED]
    return awaited, *(seen[s] for s in (TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED))


def _counted_on(task: Instance, before: Instance | None) -> Instance:
    """An instance that is inserted again keeps its try number."""
    if before is None:
        return copy(task)
    return msgspec.structs.replace(task, try_number=before.try_number, max_tries=before.try_number + task.max_tries)


def _changed(run: RunView, effect: InsertRun | UpdateRun) -> RunView:
    return msgspec.structs.replace(
        run,
        state=effect.state,
        state_seq=effect.state_seq,
        task_seq=effect.task_seq,
        unfinished=effect.unfinished,
        failed_leaves=effect.failed_leaves,
        active_tasks=effect.active_tasks if isinstance(effect, UpdateRun) else 0,
        start_date=effect.start_date or run.start_date,
        times_out_at=effect.times_out_at or run.times_out_at,
    )
