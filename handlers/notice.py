"""What it means that a run or a task came to a state: deadlines are met, and whoever wants to know is told.

A DAG without deadlines and callbacks pays nothing for this.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import NAMESPACE_OID, uuid5

import msgspec

from tidegate.handlers.advance import Move
from tidegate.schemas.dag import BaseTask
from tidegate.schemas.effect import MeetDeadlines, Notify
from tidegate.schemas.graph import Graph, element_of
from tidegate.schemas.notice import CallbackContext, MissedDeadline
from tidegate.schemas.receiver import Callback, On, kind_of
from tidegate.schemas.state import TASK_ENDED, RunState, TaskState
from tidegate.schemas.view import RunView

RUN_ENDS = {RunState.SUCCESS: (On.SUCCESS,), RunState.FAILED: (On.FAILURE,)}
OF_INSTANCES = (On.TIMEOUT, On.RETRY)
TASK_MOVES = {TaskState.SUCCESS: (On.SUCCESS,), TaskState.FAILED: (On.FAILURE,), TaskState.UP_FOR_RETRY: (On.RETRY,)}


def too_long(task: BaseTask) -> str:
    """Why an attempt is killed that takes longer than its task allows."""
    return f"it took longer than {task.execution_timeout_s or 0:g} s"


def of_run_end(
    run: RunView, graph: Graph, state: RunState, seq: int, now: datetime, reason: str = "", *, timed_out: bool = False
) -> Iterator[MeetDeadlines | Notify]:
    """A run ended; `seq` is the number of its event."""
    if graph.has_deadlines:
        yield MeetDeadlines(run.id, None, now)
    if graph.callbacks:
        occasions = (On.TIMEOUT, *RUN_ENDS[state]) if timed_out else RUN_ENDS[state]
        yield from _tell(run, "run", seq, graph.callbacks, occasions, state=state, at=now, reason=reason)


def of_task_move(run: RunView, graph: Graph, move: Move, seq: int, now: datetime) -> Iterator[MeetDeadlines | Notify]:
    """A task moved; `seq` is the number of its event.

    A mapped task ends once, as a whole; its instances, which may be thousands, tell only of tries that failed or took too long.
    """
    task, is_whole = graph.node(move.index).task, element_of(move.index) is None
    if task.deadlines and is_whole and move.state in TASK_ENDED:
        yield MeetDeadlines(run.id, task.task_id, now)
    if task.callbacks and move.state in TASK_MOVES:
        occasions = (On.TIMEOUT, *TASK_MOVES[move.state]) if move.reason == too_long(task) else TASK_MOVES[move.state]
        wanted = [on for on in occasions if is_whole or on in OF_INSTANCES]
        facts = {"task_id": graph.label(move.index), "try_number": move.try_number, "reason": move.reason}
        yield from _tell(run, "task", seq, task.callbacks, wanted, state=move.state, at=now, **facts)


def of_missed_deadline(
    run: RunView, graph: Graph, missed: MissedDeadline, seq: int, now: datetime, reason: str
) -> Iterator[Notify]:
    """A run or a task missed a deadline; `seq` is the number of the run's event."""
    if missed.task_id is msgspec.UNSET:
        callbacks, task_id = graph.callbacks, None
    else:
        callbacks, task_id = _callbacks_of(graph, missed.task_id), missed.task_id
    facts = {"task_id": task_id, "deadline": missed, "reason": reason}
    yield from _tell(run, "run", seq, callbacks, (On.DEADLINE,), state=run.state, at=now, **facts)


def _callbacks_of(graph: Graph, task_id: str) -> tuple[Callback, ...]:
    """Of a task; a run may have gone on with a version that does not have it."""
    return next((node.task.callbacks for node in graph.nodes if node.task.task_id == task_id), ())


def _tell(
    run: RunView, about: Literal["run", "task"], seq: int, callbacks: Sequence[Callback], occasions: Sequence[On], **facts: Any
) -> Iterator[Notify]:
    """Each receiver once, of the first occasion that it wants to be told of."""
    told = set()
    for on, callback in ((on, callback) for on in occasions for callback in callbacks if callback.on is on):
        receiver = callback.receiver
        if receiver not in told:
            told.add(receiver)
            yield Notify(
                dag_run_id=run.id,
                about=about,
                seq=seq,
                kind=kind_of(receiver),
                receiver_id=uuid5(NAMESPACE_OID, msgspec.json.encode(receiver).decode()),
                receiver=receiver,
                context=CallbackContext(
                    on=on,
                    dag_id=run.dag_id,
                    run_id=run.run_id,
                    run_type=run.run_type,
                    run_after=run.run_after,
                    logical_date=run.logical_date,
                    **facts,
                ),
            )
