"""One run, task by task: the state machine of tasks decides, and each ready task is executed at once."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from msgspec import UNSET

from tidegate.daemon.spark.spool import Outcome
from tidegate.handlers.runs.of_version import absent_tasks
from tidegate.handlers.runs.outlets import dataset_events
from tidegate.handlers.runs.terminate import fail
from tidegate.handlers.tasks.advance import Advance, Move, advance, begin, decide_again
from tidegate.handlers.tasks.attempt_end import STATES, AttemptEnd, Produced
from tidegate.schemas.authoring.trial import Event, RunTrial, TaskTrial
from tidegate.schemas.dag import TaskSpec
from tidegate.schemas.effect.run import InsertRun
from tidegate.schemas.graph import Graph, element_index, element_of, position_of
from tidegate.schemas.run import ConsumedEvent, RunContext
from tidegate.schemas.state import TASK_ENDED, RunState, TaskState, run_state
from tidegate.schemas.view import Instance
from tidegate.schemas.wire.event import PRODUCER

Execute = Callable[[TaskSpec, RunContext], Outcome]
READY = (TaskState.SCHEDULED, TaskState.UP_FOR_RETRY)


class RunOfTrial:
    """The task instances of a run, and the time of its clock."""

    def __init__(self, run: InsertRun, graph: Graph, events: Sequence[ConsumedEvent], now: datetime, execute: Execute) -> None:
        self._run, self._graph, self._events = run, graph, tuple(events)
        self._started_at = self.now = now
        self._execute = execute
        self._instances: dict[int, Instance] = {}
        self._reasons: dict[int, str] = {}
        self._results: dict[int, Any] = {}
        self._published: list[Event] = []
        self._failed_leaves = 0
        self._stopped = False

    def play(self) -> RunTrial:
        """Execute tasks until none is ready. The previous run counts as successful."""
        self._take(begin(self._graph, absent_tasks(self._graph, self._run)))
        if self._graph.sequential:
            for instance in self._instances.values():
                instance.waits_for_past = False
            self._take(decide_again(self._graph, self._instances))
        while (ready := self._next()) is not None:
            self._attempt(ready)
        return self._trial()

    @property
    def state(self) -> RunState:
        unfinished = sum(task.state not in TASK_ENDED for index, task in self._instances.items() if element_of(index) is None)
        return RunState.FAILED if self._stopped else run_state(unfinished, self._failed_leaves)

    def _next(self) -> Instance | None:
        """The first ready instance, else the one whose next try is first."""
        ready = [instance for instance in self._instances.values() if instance.state in READY]
        return min(ready, key=lambda it: (it.next_try_at or self._started_at, it.index), default=None)

    def _attempt(self, instance: Instance) -> None:
        self.now = max(self.now, instance.next_try_at or self.now)
        instance.state, instance.try_number, instance.next_try_at = TaskState.RUNNING, instance.try_number + 1, None
        outcome = self._execute(self._graph.node(instance.index).task, self._context(instance))
        self._results[instance.index] = None if outcome.result is UNSET else outcome.result
        produced = Produced(uuid4(), outcome.outlets or {}, outcome.events or ())
        end = AttemptEnd(
            instance.index, instance.try_number, STATES[outcome.outcome], outcome.reason, outcome.follow, produced=produced
        )
        step = advance(self._graph, self._instances, [end], self.now, run=self._run.run_id, lengths=self._lengths())
        self._take(step)
        if self._graph.fail_fast and step.failed:
            self._stop()

    def _stop(self) -> None:
        """End the waiting tasks, as `fail_fast` does."""
        for _ in fail(self._run, self._graph, tuple(self._instances.values()), self.now, reason="fail_fast is set"):
            self._stopped = True

    def _take(self, step: Advance) -> None:
        self._instances |= {instance.index: instance for instance in (*step.changed, *step.added)}
        self._failed_leaves += step.failed_leaves
        for move in step.moves:
            self._reasons[move.index] = move.reason
            self._publish(move)

    def _publish(self, move: Move) -> None:
        if move.state is TaskState.SUCCESS:
            for update in dataset_events(self._run, self._graph, move, self.now):
                extra = {key: value for key, value in update.extra.items() if key != PRODUCER}
                self._published.append(Event(update.uri, extra))

    def _lengths(self) -> dict[int, int]:
        """The lengths of the lists that tasks have returned."""
        lists = {index: len(result) for index, result in self._results.items() if isinstance(result, list)}
        return lists | {index: task.elements for index, task in self._instances.items() if task.elements}

    def _context(self, instance: Instance) -> RunContext:
        run, node, element = self._run, self._graph.node(instance.index), element_of(instance.index)
        results = {self._graph.nodes[up].task.task_id: self._result(up) for up in self._graph.read_by(instance.index)}
        results = {task_id: result for task_id, result in results.items() if result is not None}
        return RunContext(
            dag_id=run.dag_id,
            run_id=run.run_id,
            run_type=str(run.run_type),
            run_after=run.run_after,
            params=run.conf,
            events=self._events,
            logical_date=run.logical_date,
            data_interval_start=run.data_interval_start,
            data_interval_end=run.data_interval_end,
            results=results,
            map_index=element,
            item=None if element is None or node.over is None else self._result(node.over)[element],
            task_id=node.task.task_id,
            try_number=instance.try_number,
        )

    def _result(self, position: int) -> Any:
        """The result of a task; of a mapped task the list of its instances' results."""
        if self._graph.nodes[position].over is None:
            return self._results.get(position)
        elements = range(self._instances[position].elements)
        return [self._results.get(element_index(position, element)) for element in elements]

    def _trial(self) -> RunTrial:
        tasks = {
            self._graph.label(index): TaskTrial(
                state=task.state,
                try_number=task.try_number,
                reason=task.reason or self._reasons.get(index, ""),
                result=self._results.get(index),
            )
            for index, task in sorted(self._instances.items(), key=lambda found: (position_of(found[0]), found[0]))
        }
        run = self._run
        return RunTrial(
            run_id=run.run_id,
            run_type=str(run.run_type),
            state=self.state,
            started_at=self._started_at,
            logical_date=run.logical_date,
            events=self._events,
            tasks=tasks,
            published=tuple(self._published),
        )
