"""One run and its rows, changed by the effects of real decisions as the database changes them."""

from collections.abc import Iterable, Sequence
from uuid import UUID

import msgspec

from tests.shapes import NOW, message, run_view
from tidegate.handlers import submission_accepted, task_finished, tasks_ready
from tidegate.handlers.advance import Finish, reach
from tidegate.handlers.finish import State as Found
from tidegate.handlers.start import create, promote
from tidegate.schemas import effect as fx
from tidegate.schemas.event import DagRunStateChanged, TaskFinished, TaskStateChanged
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import SubmissionAccepted, TasksReady
from tidegate.schemas.state import SubmissionState, TaskState
from tidegate.schemas.view import RunView, SubmissionView, TaskView

READY = (TaskState.SCHEDULED, TaskState.UP_FOR_RETRY)
ACTIVE = (TaskState.QUEUED, TaskState.RUNNING)


class World:
    """`touched` are the tasks that the last decision wrote; `others` all effects that are not about this run's rows.

    The run starts at once, or after it was seen waiting.
    """

    def __init__(self, graph: Graph, *, waits: bool = False) -> None:
        self.graph = graph
        self.index = {node.task.task_id: position for position, node in enumerate(graph.nodes)}
        self.run: RunView = run_view(tasks=len(graph.nodes), version_id=graph.version_id)
        self.tasks: dict[int, TaskView] = {}
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

    def admit(self, *task_ids: str) -> None:
        tasks = tuple(self.tasks[self.index[task_id]] for task_id in task_ids)
        state = tasks_ready.State(NOW, len(tasks), tasks, {self.run.id: self.run}, {self.graph.version_id: self.graph})
        self.apply(tasks_ready.decide([message(TasksReady(pool="default_pool", limit=100))], state))

    def accept(self, *task_ids: str) -> None:
        ids = [self.attempt(task_id) for task_id in task_ids]
        for id_ in ids:
            self.submissions[id_] = msgspec.structs.replace(self.submissions[id_], state=SubmissionState.SUBMITTING)
        found = self.found({self.submissions[id_].task_index for id_ in ids})
        state = submission_accepted.State(found.now, found.runs, found.graphs, found.submissions, found.tasks)
        accepted = [message(SubmissionAccepted(submission_id=id_, handle={})) for id_ in ids]
        self.apply(submission_accepted.decide(accepted, state))

    def finish(self, **succeeded: bool) -> None:
        """End the newest attempts of these tasks in one batch; the decision finds only what may be touched."""
        ends = [Finish(self.index[t], self.tasks[self.index[t]].try_number, ok) for t, ok in succeeded.items()]
        state = self.found(reach(self.graph, ends))
        finished = [
            message(TaskFinished(submission_id=self.attempt(task_id), outcome="succeeded" if ok else "failed"))
            for task_id, ok in succeeded.items()
        ]
        self.apply(task_finished.decide(finished, state))

    def found(self, indices: Iterable[int]) -> Found:
        """What a decision finds that loads these tasks."""
        tasks = {(self.run.id, index): self.tasks[index] for index in indices}
        runs, graphs = {self.run.id: self.run}, {self.graph.version_id: self.graph}
        return Found(NOW, (), runs, graphs, self.submissions, tasks)

    def apply(self, effects: Iterable[fx.Effect]) -> None:
        self.touched = set()
        for effect in effects:
            self._apply(effect)

    def _apply(self, effect: fx.Effect) -> None:
        match effect:
            case fx.InsertRun() | fx.UpdateRun():
                self.run = _changed(self.run, effect)
            case fx.InsertTask() | fx.UpdateTask():
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

    def _write(self, effect: fx.InsertTask | fx.UpdateTask) -> None:
        self.touched.add(effect.task_index)
        self.tasks[effect.task_index] = TaskView(
            dag_run_id=effect.dag_run_id,
            task_index=effect.task_index,
            state=effect.state,
            try_number=effect.try_number if isinstance(effect, fx.UpdateTask) else 0,
            upstream_success=effect.upstream_success,
            upstream_failed=effect.upstream_failed,
        )


def _changed(run: RunView, effect: fx.InsertRun | fx.UpdateRun) -> RunView:
    return msgspec.structs.replace(
        run,
        state=effect.state,
        state_seq=effect.state_seq,
        task_seq=effect.task_seq,
        unfinished=effect.unfinished,
        failed_leaves=effect.failed_leaves,
        start_date=effect.start_date or run.start_date,
    )
