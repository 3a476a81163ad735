"""What it means that a run or a task came to a state: deadlines are met, and whoever wants to know is told.

A DAG without deadlines and callbacks pays nothing for this.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import NAMESPACE_OID, uuid5

import msgspec

from tidegate.handlers.tasks.advance import Move
from tidegate.schemas.dag import BaseTask
from tidegate.schemas.effect.deadline import MeetDeadlines, Notify
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
        yield from _tell(_of_run(run, "run", seq), graph.callbacks, occasions, state=state, at=now, reason=reason)


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
        yield from _tell(_of_run(run, "task", seq), task.callbacks, wanted, state=move.state, at=now, **facts)


def of_missed_deadline(
    run: RunView, graph: Graph, missed: MissedDeadline, seq: int, now: datetime, reason: str
) -> Iterator[Notify]:
    """A run or a task missed a deadline; `seq` is the number of the run's event."""
    if missed.task_id is msgspec.UNSET:
        callbacks, task_id = graph.callbacks, None
    else:
        callbacks, task_id = _callbacks_of(graph, missed.task_id), missed.task_id
    facts = {"task_id": task_id, "deadline": missed, "reason": reason}
    yield from _tell(_of_run(run, "run", seq), callbacks, (On.DEADLINE,), state=run.state, at=now, **facts)


def of_late_inputs(graph: Graph, due: datetime, now: datetime, reason: str) -> Iterator[Notify]:
    """The inputs of a DAG were not there by the deadline of its condition."""
    missed = MissedDeadline(name="inputs", due_at=due)
    yield from _tell(_of_dag(graph), graph.callbacks, (On.DEADLINE,), state=None, at=now, deadline=missed, reason=reason)


def _callbacks_of(graph: Graph, task_id: str) -> tuple[Callback, ...]:
    """Of a task; a run may have gone on with a version that does not have it."""
    return next((node.task.callbacks for node in graph.nodes if node.task.task_id == task_id), ())


class _Subject(NamedTuple):
    """What is told of: a run or a task of it, or a DAG; and what is known of that."""

    dag_run_id: int | None
    version_id: int | None
    about: Literal["run", "task", "dag"]
    seq: int
    known: Mapping[str, Any]


def _of_run(run: RunView, about: Literal["run", "task"], seq: int) -> _Subject:
    known = {name: getattr(run, name) for name in ("dag_id", "run_id", "run_type", "run_after", "logical_date")}
    return _Subject(run.id, None, about, seq, known)


def _of_dag(graph: Graph) -> _Subject:
    known = {"dag_id": graph.dag_id, "run_id": None, "run_type": None, "run_after": None, "logical_date": None}
    return _Subject(None, graph.version_id, "dag", 0, known)


def _tell(of: _Subject, callbacks: Sequence[Callback], occasions: Sequence[On], **facts: Any) -> Iterator[Notify]:
    """Each receiver once, of the first occasion that it wants to be told of."""
    told = set()
    for on, callback in ((on, callback) for on in occasions for callback in callbacks if callback.on is on):
        receiver = callback.receiver
        if receiver not in told:
            told.add(receiver)
            yield Notify(
                dag_run_id=of.dag_run_id,
                version_id=of.version_id,
                about=of.about,
                seq=of.seq,
                kind=kind_of(receiver),
                receiver_id=uuid5(NAMESPACE_OID, msgspec.json.encode(receiver).decode()),
                receiver=receiver,
                context=CallbackContext(on=on, **of.known, **facts),
            )
