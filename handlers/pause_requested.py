"""A user pauses or unpauses a DAG. Unpausing starts the runs that waited."""

from collections.abc import Iterator, Sequence

import msgspec

from tidegate.handlers.load import LockedDags, lock_dags
from tidegate.handlers.runs.rejections import no_such_dag
from tidegate.handlers.scheduling.next_runs import schedule_next_runs
from tidegate.handlers.scheduling.read_plan import ReadReason
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.backfill import WakeBackfills
from tidegate.schemas.effect.dag import SetPaused
from tidegate.schemas.message import Message, PauseRequested, request_of
from tidegate.schemas.queries.db import Db


async def load(db: Db, messages: Sequence[Message[PauseRequested]]) -> LockedDags:
    request = request_of(messages)
    return await lock_dags(db, [request.dag_id], ReadReason(everything=not request.is_paused))


def decide(messages: Sequence[Message[PauseRequested]], state: LockedDags) -> Iterator[Effect]:
    request = request_of(messages)
    if not state.dags:
        yield no_such_dag(request.dag_id)
    for dag in state.dags:
        yield SetPaused(request.dag_id, request.is_paused)
        if not request.is_paused:
            yield WakeBackfills(request.dag_id, state.now)
        yield from schedule_next_runs(msgspec.structs.replace(dag, is_paused=request.is_paused), state.now)
