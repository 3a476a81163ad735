"""Record missed deadlines: those still open when they are due. The end of a run or task closes its deadlines."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import UNSET

from tidegate.handlers.runs.notifications import notify_missed_deadline
from tidegate.handlers.runs.reason import Reason
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
    """Open deadlines that have passed, under the locks of their runs, except those locked by another transaction."""

    now: datetime
    deadlines: Sequence[DeadlineView]
    runs: Mapping[int, RunView]
    graphs: Mapping[int, Graph]


async def load(db: Db, messages: Sequence[Message[DeadlineDue]]) -> State:
    ids = [message.body.deadline_id for message in messages]
    locked = await runs.lock(db, await deadlines.lock_runs(db, ids))
    due = await deadlines.lock_due(db, ids, locked) if locked else []
    return State(db.now, due, locked, await versions.of_runs(db, locked.values()))


def decide(_messages: Sequence[Message[DeadlineDue]], state: State) -> Iterator[Effect]:
    by_run: dict[int, list[DeadlineView]] = defaultdict(list)
    for deadline in state.deadlines:
        by_run[deadline.dag_run_id].append(deadline)
    for dag_run_id, missed in by_run.items():
        run = state.runs[dag_run_id]
        for seq, deadline in enumerate(missed, run.state_seq + 1):
            yield from _miss(run, state.graphs[run.version_id], deadline, seq, state.now)
        yield update_run(run, numbered(run, states=len(missed)), state.now)


def _miss(run: RunView, graph: Graph, deadline: DeadlineView, seq: int, now: datetime) -> Iterator[Effect]:
    yield MissDeadline(deadline.id, seq, now)
    missed = MissedDeadline(name=deadline.name, due_at=deadline.due_at, task_id=deadline.task_id or UNSET)
    subject = f"task {deadline.task_id!r} " if deadline.task_id else ""
    reason = f"{subject}missed the deadline {deadline.name!r} of {deadline.due_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    event = msgspec.structs.replace(run_event(run, run.state, seq, now, Reason(reason)).event, missed_deadline=missed)
    yield RunMoved(run.id, event)
    yield from notify_missed_deadline(run, graph, missed, seq, now, reason)
