"""Deadlines and callbacks: the effects of a new state of a run or task, and of late inputs of a DAG.

A DAG without deadlines and callbacks costs nothing here. `seq` is the number of the event that a notification is about.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import NAMESPACE_OID, uuid5

import msgspec

from tidegate.handlers.runs.reason import Reason
from tidegate.handlers.tasks.advance import Move
from tidegate.schemas.effect.deadline import MeetDeadlines, Notify
from tidegate.schemas.graph import Graph, element_of
from tidegate.schemas.notice import CallbackContext, MissedDeadline
from tidegate.schemas.receiver import Callback, On, kind_of
from tidegate.schemas.state import TASK_ENDED, RunState, TaskState
from tidegate.schemas.view import RunView

ON_RUN_STATE = {RunState.SUCCESS: (On.SUCCESS,), RunState.FAILED: (On.FAILURE,)}
OF_MAPPED_INSTANCES = (On.TIMEOUT, On.RETRY)
ON_TASK_STATE = {TaskState.SUCCESS: (On.SUCCESS,), TaskState.FAILED: (On.FAILURE,), TaskState.UP_FOR_RETRY: (On.RETRY,)}


def notify_run_end(
    run: RunView, graph: Graph, state: RunState, seq: int, now: datetime, reason: Reason
) -> Iterator[MeetDeadlines | Notify]:
    if graph.has_deadlines:
        yield MeetDeadlines(run.id, None, now)
    if graph.callbacks:
        occasions = (On.TIMEOUT, *ON_RUN_STATE[state]) if reason.timed_out else ON_RUN_STATE[state]
        facts = {"reason": reason.text, "failed_tasks": reason.failed}
        yield from _notify(_about_run(run, "run", seq), graph.callbacks, occasions, state=state, at=now, **facts)


def notify_task_move(run: RunView, graph: Graph, move: Move, seq: int, now: datetime) -> Iterator[MeetDeadlines | Notify]:
    """Instances of a mapped task, which may be thousands, only notify of retries and timeouts; the task itself ends once."""
    task, is_whole = graph.node(move.index).task, element_of(move.index) is None
    if task.deadlines and is_whole and move.state in TASK_ENDED:
        yield MeetDeadlines(run.id, task.task_id, now)
    if task.callbacks and move.state in ON_TASK_STATE:
        occasions = (On.TIMEOUT, *ON_TASK_STATE[move.state]) if move.timed_out else ON_TASK_STATE[move.state]
        wanted = [on for on in occasions if is_whole or on in OF_MAPPED_INSTANCES]
        known = {"task_id": task.task_id, "map_index": element_of(move.index), "try_number": move.try_number}
        facts = {**known, "reason": move.reason, "log": move.log}
        yield from _notify(_about_run(run, "task", seq), task.callbacks, wanted, state=move.state, at=now, **facts)


def notify_missed_deadline(
    run: RunView, graph: Graph, missed: MissedDeadline, seq: int, now: datetime, reason: str
) -> Iterator[Notify]:
    if missed.task_id is msgspec.UNSET:
        callbacks, task_id = graph.callbacks, None
    else:
        callbacks, task_id = _callbacks_of(graph, missed.task_id), missed.task_id
    facts = {"task_id": task_id, "deadline": missed, "reason": reason}
    yield from _notify(_about_run(run, "run", seq), callbacks, (On.DEADLINE,), state=run.state, at=now, **facts)


def notify_late_inputs(graph: Graph, due: datetime, now: datetime, reason: str) -> Iterator[Notify]:
    """The condition of a DAG did not hold by its input deadline."""
    missed = MissedDeadline(name="inputs", due_at=due)
    yield from _notify(_about_dag(graph), graph.callbacks, (On.DEADLINE,), state=None, at=now, deadline=missed, reason=reason)


def _callbacks_of(graph: Graph, task_id: str) -> tuple[Callback, ...]:
    """The callbacks of a task; none if the run has changed to a version without it."""
    return next((node.task.callbacks for node in graph.nodes if node.task.task_id == task_id), ())


class _Subject(NamedTuple):
    """What a notification is about: a run, a task of it, or a DAG. `known` are the fields of its context."""

    dag_run_id: int | None
    version_id: int | None
    about: Literal["run", "task", "dag"]
    seq: int
    known: Mapping[str, Any]


def _about_run(run: RunView, about: Literal["run", "task"], seq: int) -> _Subject:
    known = {name: getattr(run, name) for name in ("dag_id", "run_id", "run_type", "run_after", "logical_date")}
    return _Subject(run.id, None, about, seq, known)


def _about_dag(graph: Graph) -> _Subject:
    known = {"dag_id": graph.dag_id, "run_id": None, "run_type": None, "run_after": None, "logical_date": None}
    return _Subject(None, graph.version_id, "dag", 0, known)


def _notify(subject: _Subject, callbacks: Sequence[Callback], occasions: Sequence[On], **facts: Any) -> Iterator[Notify]:
    """One notification per receiver: for the first occasion that it has a callback for."""
    notified = set()
    for on, callback in ((on, callback) for on in occasions for callback in callbacks if callback.on is on):
        receiver = callback.receiver
        if receiver not in notified:
            notified.add(receiver)
            yield Notify(
                dag_run_id=subject.dag_run_id,
                version_id=subject.version_id,
                about=subject.about,
                seq=subject.seq,
                kind=kind_of(receiver),
                receiver_id=uuid5(NAMESPACE_OID, msgspec.json.encode(receiver).decode()),
                receiver=receiver,
                context=CallbackContext(on=on, **subject.known, **facts),
            )
