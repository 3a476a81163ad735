"""How a run comes into being and starts: rows, journal entries and events of its first moments."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import msgspec

from tidegate.handlers.runs.deadlines import planned
from tidegate.handlers.runs.notifications import of_run_end, of_task_move
from tidegate.handlers.runs.rows import insert_task
from tidegate.handlers.tasks.advance import Advance, begin
from tidegate.schemas.dag import BaseTask
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import InsertRun, Reconsider, ReconsiderAfter, RunMoved, UpdateRun
from tidegate.schemas.effect.task import OutletUpdated, TaskMoved
from tidegate.schemas.graph import Graph, element_of
from tidegate.schemas.params import conf_with_defaults
from tidegate.schemas.state import RUN_ENDED, RunState, RunType, TaskState, run_state
from tidegate.schemas.timetable.tick import Tick
from tidegate.schemas.view import RunView
from tidegate.schemas.wire.event import MAX_ID_LENGTH, DagRunStateChanged, TaskStateChanged

begin_once = lru_cache(maxsize=10_000)(begin)
"""How a version's runs begin is the same for all of them."""


def absent(graph: Graph, run: RunView) -> frozenset[int]:
    """The tasks that are no part of this run, because its logical date is outside theirs."""
    if not graph.dated or run.logical_date is None:
        return frozenset()
    return frozenset(i for i, node in enumerate(graph.nodes) if not _within(node.task, run.logical_date))


def _within(task: BaseTask, date: datetime) -> bool:
    return (task.start_date is None or task.start_date <= date) and (task.end_date is None or date <= task.end_date)


def create(
    run: RunView, conf: dict[str, Any], graph: Graph, now: datetime, *, started: bool, events: int = 0
) -> Iterator[Effect]:
    """Insert a run of so many events, queued or at once started. `run` is as it will be when queued: `state_seq` 1."""
    yield moved(run, RunState.QUEUED, 1, now)
    after = _started(run, graph, now) if started else _counters(run)
    yield InsertRun(
        id=run.id,
        dag_id=run.dag_id,
        run_id=run.run_id,
        run_type=run.run_type,
        version_id=run.version_id,
        run_after=run.run_after,
        logical_date=run.logical_date,
        data_interval_start=run.data_interval_start,
        data_interval_end=run.data_interval_end,
        max_active_tasks=graph.max_active_tasks,
        conf=conf_with_defaults(graph.params, conf),
        state=after.state,
        state_seq=after.state_seq,
        task_seq=after.task_seq,
        unfinished=after.unfinished,
        failed_leaves=after.failed_leaves,
        start_date=after.start_date,
        end_date=after.end_date,
        times_out_at=after.times_out_at,
        events=events,
    )
    if graph.has_deadlines:
        yield from planned(run, graph, now)
    if started:
        yield from _first_moments(run, graph, now)


def promote(run: RunView, graph: Graph, now: datetime) -> Iterator[Effect]:
    """Start a queued run; one that has started before, and was cleared, goes on with the tasks it has."""
    if run.has_tasks:
        after = _counters(run)
        yield msgspec.structs.replace(
            after, state=RunState.RUNNING, state_seq=run.state_seq + 1, start_date=now, times_out_at=_times_out_at(graph, now)
        )
        yield moved(run, RunState.RUNNING, run.state_seq + 1, now)
        yield Reconsider(run.id)
        return
    yield _started(run, graph, now)
    yield from _first_moments(run, graph, now)


def ends_at_once(run: RunView, graph: Graph) -> bool:
    """Whether a run ends as soon as it starts, and takes no room; one that was cleared has yet to be looked at."""
    return not run.has_tasks and begin_once(graph, absent(graph, run)).ended == len(graph.nodes)


def _times_out_at(graph: Graph, now: datetime) -> datetime | None:
    return now + timedelta(seconds=graph.run_timeout_s) if graph.run_timeout_s else None


def queued_run(
    id_: int, graph: Graph, run_id: str, run_type: RunType, run_after: datetime, *, tick: Tick | None = None
) -> RunView:
    """A run as it is when just queued. `tick` gives it its logical date and data interval."""
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
        max_active_tasks=graph.max_active_tasks,
        logical_date=tick.logical_date if tick else None,
        data_interval_start=tick.interval_start if tick else None,
        data_interval_end=tick.interval_end if tick else None,
    )


def run_ended(
    run: RunView, graph: Graph, state: RunState, seq: int, at: datetime, reason: str = "", *, timed_out: bool = False
) -> Iterator[Effect]:
    """The journal entry and event of a run's end, and what else follows from it."""
    yield moved(run, state, seq, at, reason)
    yield from of_run_end(run, graph, state, seq, at, reason, timed_out=timed_out)


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


def tasks_moved(run: RunView, graph: Graph, step: Advance, now: datetime, *, outlets: bool = True) -> Iterator[Effect]:
    """The events of a step's moves, numbered after the run's `task_seq`, the dataset events of the outlets, and who is told.

    A task that only a user has succeed makes no new data: no `outlets`.
    """
    for seq, move in enumerate(step.moves, run.task_seq + 1):
        task = graph.node(move.index).task
        event = TaskStateChanged(
            dag_id=run.dag_id,
            run_id=run.run_id,
            task_id=graph.label(move.index),
            try_number=move.try_number,
            seq=seq,
            state=move.state,
            at=now,
            reason=move.reason,
        )
        yield TaskMoved(run.id, event)
        if move.state is TaskState.SUCCESS and outlets and element_of(move.index) is None:
            yield from (outlet(run, task.task_id, uri, now) for uri in task.outlets)
        if graph.watched:
            yield from of_task_move(run, graph, move, seq, now)


def outlet(run: RunView, task_id: str, uri: str, now: datetime) -> OutletUpdated:
    """The dataset event of an outlet; its id names what made it, so that it is the same however often it is made."""
    origin = {"dag_id": run.dag_id, "run_id": run.run_id, "task_id": task_id}
    return OutletUpdated(uri, _identity(f"{run.dag_id}/{run.run_id}/{task_id}/{uri}"), {"tidegate": origin}, now)


def _identity(name: str) -> str:
    """The name itself, or what stands for it where it is longer than an id may be."""
    return name if len(name) <= MAX_ID_LENGTH else str(uuid5(NAMESPACE_OID, name))


def _counters(run: RunView) -> UpdateRun:
    return UpdateRun(run.id, run.state, run.state_seq, run.task_seq, run.unfinished, run.failed_leaves, 0)


def _started(run: RunView, graph: Graph, now: datetime) -> UpdateRun:
    step = begin_once(graph, absent(graph, run))
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
        active_tasks=0,
        start_date=now,
        end_date=now if ended else None,
        times_out_at=_times_out_at(graph, now),
    )


def _first_moments(run: RunView, graph: Graph, now: datetime) -> Iterator[Effect]:
    step = begin_once(graph, absent(graph, run))
    yield moved(run, RunState.RUNNING, run.state_seq + 1, now)
    for instance in step.touched:
        yield insert_task(run, instance, graph.nodes[instance.index].task, now)
    yield from tasks_moved(run, graph, step, now)
    if step.ended == len(graph.nodes):
        yield from run_ended(run, graph, run_state(0, step.failed_leaves), run.state_seq + 2, now)
    elif graph.sequential:
        yield Reconsider(run.id)
    if graph.sequential:
        yield ReconsiderAfter(run.dag_id, run.id)
