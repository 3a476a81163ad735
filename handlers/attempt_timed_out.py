"""Kill attempts that run longer than `execution_timeout`. They count as failed once they have ended."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tidegate.handlers.runs.notifications import timeout_reason
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import AttemptTimedOut, Message
from tidegate.schemas.queries import runs, submissions, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import SubmissionState
from tidegate.schemas.view import RunView, SubmissionView


class State(msgspec.Struct, frozen=True):
    """The attempts, under the locks of their runs."""

    now: datetime
    runs: Mapping[int, RunView]
    graphs: Mapping[int, Graph]
    submissions: Mapping[UUID, SubmissionView]


async def load(db: Db, messages: Sequence[Message[AttemptTimedOut]]) -> State:
    ids = [message.body.submission_id for message in messages]
    locked = await runs.lock_of_attempts(db, ids)
    graphs = await versions.graphs(db, {run.version_id for run in locked.values()})
    return State(db.now, locked, graphs, await submissions.read(db, ids))


def decide(_messages: Sequence[Message[AttemptTimedOut]], state: State) -> Iterator[Effect]:
    for attempt in state.submissions.values():
        if attempt.state is SubmissionState.ACCEPTED and attempt.kill_reason is None:
            graph = state.graphs[state.runs[attempt.dag_run_id].version_id]
            task = graph.node(attempt.task_index).task
            yield KillSubmissions(attempt.dag_run_id, attempt.task_index, timeout_reason(task))
