"""How a run comes into being and starts: rows, journal entries and events of its first moments."""

from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from tidegate.handlers.advance import Advance, begin, run_state
from tidegate.schemas.effect import Effect, InsertRun, InsertTask, OutletUpdated, RunMoved, TaskMoved, UpdateRun
from tidegate.schemas.event import MAX_ID_LENGTH, DagRunStateChanged, TaskStateChanged
from tidegate.schemas.graph import Graph
from tidegate.schemas.state import RUN_ENDED, TASK_ENDED, RunState, RunType, TaskState
from tidegate.schemas.view import RunView

begin_once = lru_cache(maxsize=10_000)(begin)
"""How a version's runs begin is the same for all of them."""


def create(run: RunView, conf: dict[str, Any], graph: Graph, now: datetime, *, started: bool) -> Iterator[Effect]:
    """Insert a run, queued or at once started. `run` is as it will be when queued: `state_seq` 1."""
    yield moved(run, RunState.QUEUED, 1, now)
    after = _started(run, graph, now) if started else _counters(run)
    yield InsertRun(
        id=run.id,
        dag_id=run.dag_id,
        run_id=run.run_id,
        run_type=run.run_type,
        version_id=run.version_id,
        run_after=run.run_after,
        conf=conf,
        state=after.state,
        state_seq=after.state_seq,
        task_seq=after.task_seq,
        unfinished=after.unfinished,
        failed_leaves=after.failed_leaves,
        start_date=after.start_date,
        end_date=after.end_date,
    )
    if started:
        yield from _first_moments(run, graph, now)


def promote(run: RunView, graph: Graph, now: datetime) -> Iterator[Effect]:
    """Start a queued run."""
    yield _started(run, graph, now)
    yield from _first_moments(run, graph, now)


def queued_run(id_: int, graph: Graph, run_id: str, run_type: RunType, run_after: datetime) -> RunView:
    """A run as it is when just queued."""
    return RunView(
        id=id_,
        dag_id=graph.dag_id,
        run_id=run_id,
        run_type=run_type,
        state=RunState.QUEUED,
        version_id=graph.version_id,
        run_after=run_after,
        state_seq=1,
        task_seq=0,
        unfinished=len(graph.nodes),
        failed_leaves=0,
        start_date=None,
    )


def moved(run: RunView, state: RunState, seq: int, at: datetime, reason: str = "") -> RunMoved:
    """The journal entry and event of a run's move."""
    event = DagRunStateChanged(
        dag_id=run.dag_id,
        run_id=run.run_id,
        seq=seq,
        state=state,
        run_type=run.run_type,
        run_after=run.run_after,
        at=at,
        reason=reason,
    )
    return RunMoved(run.id, event)


def tasks_moved(run: RunView, graph: Graph, step: Advance, now: datetime) -> Iterator[TaskMoved | OutletUpdated]:
    """The events of a step's moves, numbered after the run's `task_seq`, and the dataset events of the outlets."""
    for seq, move in enumerate(step.moves, run.task_seq + 1):
        task = graph.nodes[move.index].task
        event = TaskStateChanged(
            dag_id=run.dag_id,
            run_id=run.run_id,
            task_id=task.task_id,
            try_number=move.try_number,
            seq=seq,
            state=move.state,
            at=now,
            reason=move.reason,
        )
        yield TaskMoved(run.id, event)
        if move.state is TaskState.SUCCESS:
            yield from (outlet(run, task.task_id, uri, now) for uri in task.outlets)


def outlet(run: RunView, task_id: str, uri: str, now: datetime) -> OutletUpdated:
    """The dataset event of an outlet; its id names what made it, so that it is the same however often it is made."""
    origin = {"dag_id": run.dag_id, "run_id": run.run_id, "task_id": task_id}
    return OutletUpdated(uri, _identity(f"{run.dag_id}/{run.run_id}/{task_id}/{uri}"), {"tidegate": origin}, now)


def _identity(name: str) -> str:
    """The name itself, or what stands for it where it is longer than an id may be."""
    return name if len(name) <= MAX_ID_LENGTH else str(uuid5(NAMESPACE_OID, name))


def _counters(run: RunView) -> UpdateRun:
    return UpdateRun(run.id, run.state, run.state_seq, run.task_seq, run.unfinished, run.failed_leaves, None, None)


def _started(run: RunView, graph: Graph, now: datetime) -> UpdateRun:
    step = begin_once(graph)
    unfinished = len(graph.nodes) - step.ended
    state = run_state(unfinished, step.failed_leaves)
    ended = state in RUN_ENDED
    return UpdateRun(
        id=run.id,
        state=state,
        state_seq=run.state_seq + 1 + ended,
        task_seq=run.task_seq + len(step.moves),
        unfinished=unfinished,
        failed_leaves=step.failed_leaves,
        start_date=now,
        end_date=now if ended else None,
    )


def _first_moments(run: RunView, graph: Graph, now: datetime) -> Iterator[Effect]:
    step = begin_once(graph)
    yield moved(run, RunState.RUNNING, run.state_seq + 1, now)
    for instance in step.touched:
        yield InsertTask(
            run.id,
            instance.index,
            graph.nodes[instance.index].task.task_id,
            instance.state,
            instance.upstream_success,
            instance.upstream_failed,
            now if instance.state in TASK_ENDED else None,
        )
    yield from tasks_moved(run, graph, step, now)
    if step.ended == len(graph.nodes):
        yield moved(run, run_state(0, step.failed_leaves), run.state_seq + 2, now)
