"""One run and its rows, changed by the effects of real decisions as the database changes them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET

from tests.shapes import NOW, message, run_view
from tidegate.handlers import retry_due, run_reconsidered, submission_accepted, task_finished, tasks_ready
from tidegate.handlers.advance import Finish
from tidegate.handlers.finish import State as Found
from tidegate.handlers.past import Past
from tidegate.handlers.reach import reach
from tidegate.handlers.start import create, promote
from tidegate.schemas import effect as fx
from tidegate.schemas.event import DagRunStateChanged, TaskFinished, TaskStateChanged
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import RetryDue, RunReconsidered, SubmissionAccepted, TasksReady
from tidegate.schemas.state import TASK_ACTIVE, TASK_ENDED, TASK_FAILED, SubmissionState, TaskState
from tidegate.schemas.view import Instance, PoolView, RunView, SubmissionView, WaitingTask

READY = (TaskState.SCHEDULED, TaskState.UP_FOR_RETRY)
ACTIVE = (TaskState.QUEUED, TaskState.RUNNING)
FIRST = object()
"""There is no run before this one."""

End = bool | TaskState | tuple[str, ...]
"""How an attempt ends: whether it succeeds, its state, or by its choice of branches."""


class World:
    """`touched` are the tasks that the last decision wrote; `others` all effects that are not about this run's rows.

    The run starts at once, or after it was seen waiting.
    """

    def __init__(self, graph: Graph, *, waits: bool = False, **facts: Any) -> None:
        self.graph = graph
        self.index = {node.task.task_id: position for position, node in enumerate(graph.nodes)}
        self.run: RunView = run_view(tasks=len(graph.nodes), version_id=graph.version_id, **facts)
        self.rows: dict[int, fx.InsertTask] = {}
        self.tasks: dict[int, Instance] = {}
        self.submissions: dict[UUID, SubmissionView] = {}
        self.published: list[TaskStateChanged] = []
        self.journal: list[DagRunStateChanged] = []
        self.touched: set[int] = set()
        self.others: list[fx.Effect] = []
        self.apply(create(self.run, {}, graph, NOW, started=not waits))
        if waits:
            self.apply(promote(self.run, graph, NOW))

    def states(self) -> dict[str, TaskState]:
        return {task_id: self.tasks[index].state for task_id, index in self.index.items()}

    def all_in(self, states: Sequence[TaskState]) -> list[str]:
        return [task_id for task_id, state in self.states().items() if state in states]

    def attempt(self, task_id: str) -> UUID:
        """The newest attempt of a task."""
        index = self.index[task_id]
        tries = self.tasks[index].try_number
        return next(id_ for id_, it in self.submissions.items() if (it.task_index, it.try_number) == (index, tries))

    def waiting(self, *task_ids: str) -> tuple[WaitingTask, ...]:
        """As the admission finds these tasks."""
        return tuple(self._waiting(self.index[task_id]) for task_id in task_ids)

    def _waiting(self, index: int) -> WaitingTask:
        row, task = self.rows[index], self.tasks[index]
        limits = (row.pool_slots, row.per_dag, row.per_run)
        return WaitingTask(self.run.id, index, self.run.dag_id, row.task_id, task.state, task.try_number, *limits)

    def admit(self, *task_ids: str) -> None:
        self.apply(tasks_ready.decide([message(TasksReady(pool="default_pool", limit=100))], self.pool(*task_ids)))

    def pool(self, *task_ids: str) -> tasks_ready.State:
        """What the admission finds when these tasks wait for a pool with any number of slots."""
        return tasks_ready.State(
            NOW,
            PoolView(name="default_pool", open=None),
            self.waiting(*task_ids),
            runs={self.run.id: self.run},
            graphs={self.graph.version_id: self.graph},
        )

    def accept(self, *task_ids: str) -> None:
        ids = [self.attempt(task_id) for task_id in task_ids]
        for id_ in ids:
            self.submissions[id_] = msgspec.structs.replace(self.submissions[id_], state=SubmissionState.SUBMITTING)
        found = self.found({self.submissions[id_].task_index for id_ in ids})
        state = submission_accepted.State(found.now, found.runs, found.graphs, found.submissions, found.tasks)
        accepted = [message(SubmissionAccepted(submission_id=id_, handle={})) for id_ in ids]
        self.apply(submission_accepted.decide(accepted, state))

    def finish(self, **ends: End) -> None:
        """End the newest attempts of these tasks in one batch; the decision finds only what may be touched."""
        state = self.found(reach(self.graph, [self.finish_of(task_id, end) for task_id, end in ends.items()]))
        self.apply(task_finished.decide([message(self._finished(t, end)) for t, end in ends.items()], state))

    def finish_with(self, *finished: TaskFinished) -> None:
        """These news come in one batch."""
        self.apply(task_finished.decide([message(each) for each in finished], self.found(self.tasks)))

    def finish_of(self, task_id: str, end: End) -> Finish:
        """The end of the newest attempt of a task."""
        index, follow = self.index[task_id], end if isinstance(end, tuple) else None
        return Finish(index, self.tasks[index].try_number, state_of(end), follow=follow)

    def _finished(self, task_id: str, end: End) -> TaskFinished:
        outcome: Any = OUTCOMES[state_of(end)]
        return TaskFinished(submission_id=self.attempt(task_id), outcome=outcome, follow=end if isinstance(end, tuple) else UNSET)

    def retry(self, *task_ids: str) -> None:
        """Let the time come for another try."""
        tasks = [self.tasks[self.index[task_id]] for task_id in task_ids]
        due = self.due(*task_ids, now=max(task.next_try_at or NOW for task in tasks))
        self.apply(retry_due.decide([message(RetryDue(dag_run_id=self.run.id, task_index=t.index)) for t in tasks], due))

    def due(self, *task_ids: str, now: datetime) -> retry_due.State:
        """What the decision about another try finds of these tasks, or of all."""
        tasks = [msgspec.structs.replace(self.tasks[self.index[task_id]]) for task_id in task_ids or self.index]
        runs, graphs = {self.run.id: self.run}, {self.graph.version_id: self.graph}
        return retry_due.State(now, runs, graphs, {self.run.id: tasks})

    def reconsider(self, past: Any = FIRST, *, stop: str = "", now: datetime = NOW) -> None:
        """Look at the run as a whole. `past` are the states of the tasks of the run before it; None where that did not start."""
        self.apply(run_reconsidered.decide([message(RunReconsidered(dag_run_id=self.run.id))], self.whole(past, stop, now)))

    def whole(self, past: Any = FIRST, stop: str = "", now: datetime = NOW) -> run_reconsidered.State:
        id_ = self.run.id
        return run_reconsidered.State(
            now,
            (),
            {id_: self.run},
            {self.graph.version_id: self.graph},
            {id_: [msgspec.structs.replace(self.tasks[index]) for index in sorted(self.tasks)]},
            {} if past is FIRST else {id_: Past(past)},
            {id_: stop} if stop else {},
        )

    def found(self, indices: Iterable[int]) -> Found:
        """What a decision finds that loads these tasks."""
        tasks = {(self.run.id, index): msgspec.structs.replace(self.tasks[index]) for index in indices}
        runs, graphs = {self.run.id: self.run}, {self.graph.version_id: self.graph}
        return Found(NOW, (), runs, graphs, self.submissions, tasks)

    def apply(self, effects: Iterable[fx.Effect]) -> None:
        self.touched = set()
        for effect in effects:
            if run_of(effect) in (None, self.run.id):
                self._apply(effect)
            else:
                self.others.append(effect)

    def _apply(self, effect: fx.Effect) -> None:
        match effect:
            case fx.InsertRun() | fx.UpdateRun():
                self.run = _changed(self.run, effect)
            case fx.InsertTask() | fx.UpdateTask() | fx.MoveTask():
                self._write(effect)
            case fx.InsertSubmission(id_, run_id, index, try_number):
                self.submissions[id_] = SubmissionView(
                    submission_id=id_, dag_run_id=run_id, task_index=index, try_number=try_number, state=SubmissionState.INTENT
                )
            case fx.AcceptSubmission(id_):
                self.submissions[id_] = msgspec.structs.replace(self.submissions[id_], state=SubmissionState.ACCEPTED)
            case fx.EndSubmission(id_, state):
                self.submissions[id_] = msgspec.structs.replace(self.submissions[id_], state=state)
            case fx.TaskMoved(_, moved):
                self.published.append(moved)
            case fx.RunMoved(_, moved_run):
                self.journal.append(moved_run)
            case _:
                self.others.append(effect)

    def _write(self, effect: fx.InsertTask | fx.UpdateTask | fx.MoveTask) -> None:
        self.touched.add(effect.task_index)
        match effect:
            case fx.InsertTask():
                self.rows[effect.task_index] = effect
                self.tasks[effect.task_index] = _instance(effect, effect.task_index)
            case fx.UpdateTask():
                self.tasks[effect.task_index] = _instance(effect, effect.task_index)
            case fx.MoveTask(_, index, state, try_number):
                self.tasks[index] = msgspec.structs.replace(self.tasks[index], state=state, try_number=try_number)

    def check(self, *, decided: bool = True) -> None:
        """The counters of the run and of its tasks are what the states of its tasks say, also those of `decided` tasks."""
        self.check_run()
        for index, node in enumerate(self.graph.nodes):
            above = [self.tasks[self.index[task_id]].state for task_id in node.task.upstream]
            if decided or self.tasks[index].state is TaskState.NONE:
                assert counted(self.tasks[index]) == expected(above)

    def check_run(self) -> None:
        states = [self.tasks[index].state for index in range(len(self.graph.nodes))]
        leaves = [states[index] for index, node in enumerate(self.graph.nodes) if node.decisive]
        assert self.run.unfinished == sum(state not in TASK_ENDED for state in states)
        assert self.run.failed_leaves == sum(state in TASK_FAILED for state in leaves)
        assert self.run.active_tasks == sum(state in TASK_ACTIVE for state in states)
        assert self.run.task_seq == len(self.published)
        assert self.run.state_seq == len(self.journal)


def run_of(effect: fx.Effect) -> int | None:
    """Which run an effect is about; None where it is about none alone."""
    return effect.id if isinstance(effect, fx.InsertRun | fx.UpdateRun) else getattr(effect, "dag_run_id", None)


def counted(task: Instance | fx.InsertTask | fx.UpdateTask) -> tuple[int, ...]:
    return task.awaited, task.success, task.failed, task.skipped, task.upstream_failed


def expected(upstream: Sequence[TaskState]) -> tuple[int, ...]:
    """The counts of a task with these before it."""
    seen = Counter(upstream)
    awaited = len(upstream) - seen[TaskState.REMOVED]
    return awaited, *(seen[s] for s in (TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED))


OUTCOMES = {TaskState.SUCCESS: "succeeded", TaskState.FAILED: "failed", TaskState.SKIPPED: "skipped"}


def state_of(end: End) -> TaskState:
    if isinstance(end, TaskState):
        return end
    return TaskState.FAILED if end is False else TaskState.SUCCESS


def _instance(effect: fx.InsertTask | fx.UpdateTask, index: int) -> Instance:
    names = {field for field in Instance.__struct_fields__ if hasattr(effect, field)}
    return Instance(index, **{name: getattr(effect, name) for name in names})


def _changed(run: RunView, effect: fx.InsertRun | fx.UpdateRun) -> RunView:
    return msgspec.structs.replace(
        run,
        state=effect.state,
        state_seq=effect.state_seq,
        task_seq=effect.task_seq,
        unfinished=effect.unfinished,
        failed_leaves=effect.failed_leaves,
        active_tasks=effect.active_tasks if isinstance(effect, fx.UpdateRun) else 0,
        start_date=effect.start_date or run.start_date,
        times_out_at=effect.times_out_at or run.times_out_at,
    )
