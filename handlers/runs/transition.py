"""Changes of a run: the effects for its row, its events and its notifications."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec
from msgspec import UNSET

from tidegate.handlers.runs.notifications import notify_run_end, notify_task_move
from tidegate.handlers.runs.outlets import dataset_events
from tidegate.handlers.runs.reason import NO_REASON, Reason
from tidegate.handlers.tasks.advance import Move
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.backfill import NotifyBackfill
from tidegate.schemas.effect.run import RunMoved, UpdateRun
from tidegate.schemas.effect.task import TaskMoved
from tidegate.schemas.graph import Graph, element_of
from tidegate.schemas.state import RUN_ENDED, RunState, TaskState
from tidegate.schemas.view import RunStatus, RunView
from tidegate.schemas.wire.event import DagRunStateChanged, TaskStateChanged


def change_run(
    before: RunView, after: RunView, graph: Graph, moves: Sequence[Move], now: datetime, reason: Reason = NO_REASON
) -> Iterator[Effect]:
    """The effects of a run with a new state or with `moves` of its tasks: its row, and their events.

    `after` has the new state and counters; it gets its sequence numbers here. A backfill is notified of each end and reopening,
    and of a run that may wait for the previous one from now on, because such a run leaves its slot to earlier runs.
    """
    states = () if after.state is before.state else (after.state,)
    yield update_run(before, numbered(after, states=len(states), moves=len(moves)), now)
    yield from publish(before, graph, states, moves, now, reason)
    may_wait = graph.sequential and bool(moves) and not after.active_tasks
    if before.backfill_id is not None and (_changes_end(before, after) or may_wait):
        yield NotifyBackfill(before.backfill_id, before.id, before.state in RUN_ENDED and bool(states), now)


def _changes_end(before: RunView, after: RunView) -> bool:
    """Whether the run enters or leaves an end state, or changes to another one."""
    return before.state is not after.state and not RUN_ENDED.isdisjoint((before.state, after.state))


def numbered(run: RunView, *, states: int = 0, moves: int = 0) -> RunView:
    """The run with its sequence numbers after new events: of its own `states`, and of `moves` of its tasks."""
    return msgspec.structs.replace(run, state_seq=run.state_seq + states, task_seq=run.task_seq + moves)


def update_run(before: RunView, after: RunView, now: datetime) -> UpdateRun:
    ended = after.state in RUN_ENDED and after.state is not before.state
    times_out_at = after.times_out_at if after.times_out_at != before.times_out_at else None
    status = {name: getattr(after, name) for name in RunStatus.__struct_fields__}
    return UpdateRun(**status | {"times_out_at": times_out_at}, end_date=now if ended else None)


def publish(
    before: RunView, graph: Graph, states: Sequence[RunState], moves: Sequence[Move], now: datetime, reason: Reason = NO_REASON
) -> Iterator[Effect]:
    """The events of a run's states and of its tasks' moves, numbered after the last ones, and their notifications."""
    yield from task_events(before, graph, moves, now, outlets=reason.outlets)
    for seq, state in enumerate(states, before.state_seq + 1):
        yield run_event(before, state, seq, now, reason)
        if state in RUN_ENDED:
            yield from notify_run_end(before, graph, state, seq, now, reason)


def run_event(run: RunView, state: RunState, seq: int, at: datetime, reason: Reason = NO_REASON) -> RunMoved:
    """The journal entry and event of a run's state."""
    event = DagRunStateChanged(
        dag_id=run.dag_id,
        run_id=run.run_id,
        seq=seq,
        state=state,
        run_type=run.run_type,
        run_after=run.run_after,
        at=at,
        reason=reason.text,
        failed_tasks=reason.failed or UNSET,
    )
    return RunMoved(run.id, event)


def task_events(run: RunView, graph: Graph, moves: Sequence[Move], now: datetime, *, outlets: bool = True) -> Iterator[Effect]:
    """The events of tasks' moves, the dataset events of their outlets, and their notifications."""
    for seq, move in enumerate(moves, run.task_seq + 1):
        event = TaskStateChanged(
            dag_id=run.dag_id,
            run_id=run.run_id,
            task_id=graph.node(move.index).task.task_id,
            try_number=move.try_number,
            seq=seq,
            state=move.state,
            at=now,
            reason=move.reason,
            map_index=UNSET if (element := element_of(move.index)) is None else element,
            log=move.log or UNSET,
        )
        yield TaskMoved(run.id, event)
        if move.state is TaskState.SUCCESS and outlets and run.updates_outlets:
            yield from dataset_events(run, graph, move, now)
        if graph.watched:
            yield from notify_task_move(run, graph, move, seq, now)
