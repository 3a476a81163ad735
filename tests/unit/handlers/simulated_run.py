"""One run in memory: each decision about it finds the rows that the earlier ones left."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET

from tests.shapes import NOW, message, run_view
from tests.unit.handlers.run_rows import RunRows
from tidegate.handlers import retry_due, run_reconsidered, submission_accepted, task_finished, tasks_ready
from tidegate.handlers.admission.capacity import AdmissionState
from tidegate.handlers.attempt_ends import State as Found
from tidegate.handlers.load import LockedAttempts
from tidegate.handlers.runs.create import create, promote
from tidegate.handlers.tasks.affected import affected_tasks
from tidegate.handlers.tasks.attempt_end import AttemptEnd
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import UpdateRun
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import RetryDue, RunReconsidered, SubmissionAccepted, TasksReady
from tidegate.schemas.state import RunState, SubmissionState, TaskState
from tidegate.schemas.view import PoolView, PreviousRun, WaitingTask
from tidegate.schemas.wire.event import TaskFinished

READY = (TaskState.SCHEDULED, TaskState.UP_FOR_RETRY)
ACTIVE = (TaskState.QUEUED, TaskState.RUNNING)
FIRST = object()
"""This is the first run of its DAG."""

End = bool | TaskState | tuple[str, ...]
"""How an attempt ends: success or not, a state, or success with a choice of branches."""


class SimulatedRun(RunRows):
    """A run that is started at once, or queued first if it `waits`. `returns` has the results of its tasks."""

    def __init__(self, graph: Graph, *, waits: bool = False, **facts: Any) -> None:
        super().__init__(run_view(tasks=len(graph.nodes), version_id=graph.version_id, **facts), graph)
        self.returns: dict[str, Any] = {}
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
        """These tasks in the queue of their pool."""
        return tuple(self._waiting(self.index[task_id]) for task_id in task_ids)

    def _waiting(self, index: int) -> WaitingTask:
        row, task = self.rows[index], self.tasks[index]
        limits = (row.demand.pool_slots, row.demand.per_dag, row.demand.per_run)
        return WaitingTask(self.run.id, index, self.run.dag_id, row.task_id, task.state, task.try_number, *limits)

    def admit(self, *task_ids: str) -> None:
        self.apply(tasks_ready.decide([message(TasksReady(pool="default_pool", limit=100))], self.pool(*task_ids)))

    def pool(self, *task_ids: str) -> AdmissionState:
        """The state of an admission to an unlimited pool."""
        return AdmissionState(
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
        state = LockedAttempts(found.now, found.runs, found.graphs, found.submissions, found.tasks)
        accepted = [message(SubmissionAccepted(submission_id=id_, handle={})) for id_ in ids]
        self.apply(submission_accepted.decide(accepted, state))

    def finish(self, **ends: End) -> None:
        """End the newest attempts of these tasks in one batch; the decision finds only the affected tasks."""
        state = self.found(affected_tasks(self.graph, [self.finish_of(task_id, end) for task_id, end in ends.items()]))
        self.apply(task_finished.decide([message(self._finished(t, end)) for t, end in ends.items()], state))

    def finish_with(self, *finished: TaskFinished) -> None:
        """These finishes come in one batch."""
        self.apply(task_finished.decide([message(each) for each in finished], self.found(self.tasks)))

    def finish_of(self, task_id: str, end: End) -> AttemptEnd:
        """The end of the newest attempt of a task."""
        index, branches = self.index[task_id], end if isinstance(end, tuple) else None
        return AttemptEnd(index, self.tasks[index].try_number, state_of(end), branches=branches)

    def _finished(self, task_id: str, end: End) -> TaskFinished:
        outcome: Any = OUTCOMES[state_of(end)]
        follow = end if isinstance(end, tuple) else UNSET
        result = self.returns.get(task_id, UNSET) if outcome == "succeeded" else UNSET
        return TaskFinished(submission_id=self.attempt(task_id), outcome=outcome, follow=follow, result=result)

    def retry(self, *task_ids: str) -> None:
        """Retry these tasks once their delay has passed."""
        tasks = [self.tasks[self.index[task_id]] for task_id in task_ids]
        due = self.due(*task_ids, now=max(task.next_try_at or NOW for task in tasks))
        self.apply(retry_due.decide([message(RetryDue(dag_run_id=self.run.id, task_index=t.index)) for t in tasks], due))

    def due(self, *task_ids: str, now: datetime) -> retry_due.State:
        """The state of `retry_due` for these tasks, or for all."""
        tasks = [msgspec.structs.replace(self.tasks[self.index[task_id]]) for task_id in task_ids or self.index]
        runs, graphs = {self.run.id: self.run}, {self.graph.version_id: self.graph}
        return retry_due.State(now, runs, graphs, {self.run.id: tasks})

    def reconsider(self, past: Any = FIRST, *, stop: str = "", now: datetime = NOW) -> None:
        """Reconsider the run. `past` are the task states of the previous run; None where that has not started."""
        self.apply(run_reconsidered.decide([message(RunReconsidered(dag_run_id=self.run.id))], self.whole(past, stop, now)))

    def whole(self, past: Any = FIRST, stop: str = "", now: datetime = NOW) -> run_reconsidered.State:
        id_ = self.run.id
        return run_reconsidered.State(
            now,
            (),
            {id_: self.run},
            {self.graph.version_id: self.graph},
            {id_: {index: msgspec.structs.replace(self.tasks[index]) for index in sorted(self.tasks)}},
            {} if past is FIRST else {id_: PreviousRun(past)},
            {id_: stop} if stop else {},
            {id_: self.lengths()},
        )

    def found(self, indices: Iterable[int]) -> Found:
        """The state of a decision about the ends of attempts that has read these tasks."""
        tasks = {(self.run.id, index): msgspec.structs.replace(self.tasks[index]) for index in indices}
        runs, graphs = {self.run.id: self.run}, {self.graph.version_id: self.graph}
        lengths = {(self.run.id, index): length for index, length in self.lengths().items()}
        return Found(NOW, (), runs, graphs, self.submissions, tasks, lengths)


OUTCOMES = {TaskState.SUCCESS: "succeeded", TaskState.FAILED: "failed", TaskState.SKIPPED: "skipped"}


def state_of(end: End) -> TaskState:
    if isinstance(end, TaskState):
        return end
    return TaskState.FAILED if end is False else TaskState.SUCCESS


def started(effects: Sequence[Effect]) -> list[int]:
    """The runs that begin."""
    return [e.id for e in effects if isinstance(e, UpdateRun) and e.state is RunState.RUNNING]
