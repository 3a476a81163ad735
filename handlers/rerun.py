"""Tasks of a run are set back so that they run again, and the run with them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

import msgspec

from tidegate.handlers.advance import Advance, Move, tally
from tidegate.handlers.finish import updated
from tidegate.handlers.start import moved, tasks_moved
from tidegate.schemas.effect import Effect, KillSubmissions, Reconsider, UpdateRun
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import RUN_ENDED, TASK_ACTIVE, TASK_ENDED, TASK_FAILED, RunState, TaskState
from tidegate.schemas.view import Instance, RunView

CLEARED = "cleared by a user"


def set_back(
    run: RunView,
    graph: Graph,
    instances: Mapping[int, Instance],
    chosen: Collection[int],
    now: datetime,
    *,
    written: frozenset[int] = frozenset(),
) -> Iterator[Effect]:
    """Let the chosen tasks run again, and write those that were changed besides.

    Those at work are killed first, and tried again once that is confirmed. A run that had ended is queued, behind its DAG's
    limits; one at work goes on.
    """
    moves = []
    for index in chosen:
        instance = instances[index]
        instance.max_tries = instance.try_number + graph.nodes[index].task.retries + 1
        if instance.state in TASK_ACTIVE:
            yield KillSubmissions(run.id, index, CLEARED)
        elif instance.state is not TaskState.NONE:
            instance.state, instance.next_try_at = TaskState.NONE, None
            task = graph.nodes[index].task
            instance.waits_for_past = task.depends_on_past or task.wait_for_downstream
            moves.append(Move(index, TaskState.NONE, instance.try_number, CLEARED))
    for index, instance in instances.items():
        if instance.state is TaskState.NONE:
            _count_anew(instance, [instances[above].state for above in graph.above[index]])
        if instance.state is TaskState.NONE or index in chosen or index in written:
            yield updated(run, instance, now)
    yield from tasks_moved(run, graph, Advance((), tuple(moves), 0, 0), now)
    yield from _queue(run, graph, instances.values(), len(moves), now)


def _queue(run: RunView, graph: Graph, instances: Iterable[Instance], moves: int, now: datetime) -> Iterator[Effect]:
    states = {instance.index: instance.state for instance in instances}
    after = UpdateRun(
        id=run.id,
        state=RunState.QUEUED if run.state in RUN_ENDED else run.state,
        state_seq=run.state_seq,
        task_seq=run.task_seq + moves,
        unfinished=sum(state not in TASK_ENDED for state in states.values()),
        failed_leaves=sum(graph.nodes[index].decisive and state in TASK_FAILED for index, state in states.items()),
        active_tasks=run.active_tasks,
    )
    if run.state in RUN_ENDED:
        yield msgspec.structs.replace(after, state_seq=run.state_seq + 1)
        yield moved(run, RunState.QUEUED, run.state_seq + 1, now, CLEARED)
    else:
        yield after
    if run.state is RunState.RUNNING:
        yield Reconsider(run.id)


def _count_anew(instance: Instance, states: Iterable[TaskState]) -> None:
    found = tally(states)
    instance.awaited, instance.success, instance.failed = found.total, found.success, found.failed
    instance.skipped, instance.upstream_failed = found.skipped, found.upstream_failed
