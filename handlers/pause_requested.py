"""A user pauses or unpauses a DAG. Unpausing starts the runs that waited."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.load_dags import lock_dags
from tidegate.handlers.runs.rejections import no_such_dag
from tidegate.handlers.scheduling.next_runs import schedule_next_runs
from tidegate.handlers.scheduling.read_plan import ReadReason
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import SetPaused
from tidegate.schemas.message import Message, PauseRequested
from tidegate.schemas.queries.db import Db
from tidegate.schemas.view import DagView


class State(msgspec.Struct, frozen=True):
    """The DAG, locked; None when there is no such DAG."""

    now: datetime
    dag: DagView | None


async def load(db: Db, messages: Sequence[Message[PauseRequested]]) -> State:
    (request,) = (message.body for message in messages)
    found = await lock_dags(db, [request.dag_id], ReadReason(everything=not request.is_paused))
    return State(db.now, found[0] if found else None)


def decide(messages: Sequence[Message[PauseRequested]], state: State) -> Iterator[Effect]:
    (request,) = (message.body for message in messages)
    if state.dag is None:
        yield no_such_dag(request.dag_id)
        return
    yield SetPaused(request.dag_id, request.is_paused)
    yield from schedule_next_runs(msgspec.structs.replace(state.dag, is_paused=request.is_paused), state.now)
