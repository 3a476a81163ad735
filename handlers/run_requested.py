"""A user wants a run: create it, and start it when there is room."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec

from tidegate.handlers.start import create, queued_run
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.message import Message, RunRequested
from tidegate.schemas.queries import dags, runs
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RunType
from tidegate.schemas.view import DagView

NO_SUCH_DAG = "no_such_dag"
RUN_EXISTS = "run_exists"


class State(msgspec.Struct, frozen=True):
    """The DAG, locked; None when there is no such DAG."""

    now: datetime
    dag: DagView | None
    run_exists: bool


async def load(db: Db, messages: Sequence[Message[RunRequested]]) -> State:
    (message,) = messages
    found = await dags.lock(db, [message.body.dag_id])
    return State(db.now, found[0] if found else None, await runs.exists(db, message.body.dag_id, run_id_of(message)))


def decide(messages: Sequence[Message[RunRequested]], state: State) -> Iterator[Effect]:
    (message,) = messages
    request, run_id = message.body, run_id_of(message)
    if state.dag is None:
        yield RejectMessage(0, NO_SUCH_DAG, f"there is no DAG {request.dag_id!r}; `tidegate dags list` shows those there are")
    elif state.run_exists:
        yield RejectMessage(0, RUN_EXISTS, f"DAG {request.dag_id!r} already has a run {run_id!r}")
    else:
        run = queued_run(state.dag.next_run_id, state.dag.graph, run_id, RunType.MANUAL, message.at)
        yield from create(run, request.conf, state.dag.graph, state.now, started=has_room(state.dag))


def run_id_of(message: Message[RunRequested]) -> str:
    """The id that was asked for, or one made from the time."""
    return message.body.run_id or f"manual__{message.at.astimezone(UTC).isoformat()}"


def has_room(dag: DagView) -> bool:
    """Whether a new run may start at once, without overtaking one that waits."""
    return not dag.is_held and not dag.queued and dag.running < dag.graph.max_active_runs
