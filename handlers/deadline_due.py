"""Deadlines have passed: whatever had ended in time has closed its own, so that those still open were missed."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import UNSET

from tidegate.handlers.runs.notifications import of_missed_deadline
from tidegate.handlers.runs.transition import numbered, run_event, update_run
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.deadline import MissDeadline
from tidegate.schemas.effect.run import RunMoved
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import DeadlineDue, Message
from tidegate.schemas.notice import MissedDeadline
from tidegate.schemas.queries import deadlines, runs, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.view import DeadlineView, RunView


class State(msgspec.Struct, frozen=True):
    """The open deadlines that have passed, under the locks of their runs; without those that somebody else is at work on."""

    now: datetime
    deadlines: Sequence[DeadlineView]
    runs: Mapping[int, RunView]
    graphs: Mapping[int, Graph]


async def load(db: Db, messages: Sequence[Message[DeadlineDue]]) -> State:
    ids = [message.body.deadline_id for message in messages]
    locked = await runs.lock(db, await deadlines.lock_runs(db, ids))
    due = await deadlines.lock_due(db, ids, locked) if locked else []
    return State(db.now, due, locked, await versions.graphs(db, {run.version_id for run in locked.values()}))


def decide(_messages: Sequence[Message[DeadlineDue]], state: State) -> Iterator[Effect]:
    of_runs: dict[int, list[DeadlineView]] = defaultdict(list)
    for deadline in state.deadlines:
        of_runs[deadline.dag_run_id].append(deadline)
    for dag_run_id, missed in of_runs.items():
        run = state.runs[dag_run_id]
        for seq, deadline in enumerate(missed, run.state_seq + 1):
            yield MissDeadline(deadline.id, seq, state.now)
            yield from _tell(run, state.graphs[run.version_id], deadline, seq, state.now)
        yield update_run(run, numbered(run, states=len(missed)), state.now)


def _tell(run: RunView, graph: Graph, deadline: DeadlineView, seq: int, now: datetime) -> Iterator[Effect]:
    missed = MissedDeadline(name=deadline.name, due_at=deadline.due_at, task_id=deadline.task_id or UNSET)
    who = f"task {deadline.task_id!r} " if deadline.task_id else ""
    reason = f"{who}missed the deadline {deadline.name!r} of {deadline.due_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    event = msgspec.structs.replace(run_event(run, run.state, seq, now, reason).event, missed_deadline=missed)
    yield RunMoved(run.id, event)
    yield from of_missed_deadline(run, graph, missed, seq, now, reason)
