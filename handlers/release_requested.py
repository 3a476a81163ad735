"""A user releases a held DAG: the clock visits it at once. If the fault is still there, the daemon holds the DAG again."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.backfill import WakeBackfills
from tidegate.schemas.effect.dag import ReleaseDag
from tidegate.schemas.message import Message, ReleaseRequested, request_of
from tidegate.schemas.queries import holds
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.holds import Hold

NOT_HELD = "not_held"


class State(msgspec.Struct, frozen=True):
    """The hold of the DAG; None if it is not held."""

    now: datetime
    hold: Hold | None


async def load(db: Db, messages: Sequence[Message[ReleaseRequested]]) -> State:
    return State(db.now, await holds.hold_of(db, request_of(messages).dag_id))


def decide(messages: Sequence[Message[ReleaseRequested]], state: State) -> Iterator[Effect]:
    dag_id = request_of(messages).dag_id
    if state.hold is None:
        yield RejectMessage(NOT_HELD, f"no DAG {dag_id!r} is held; `tidegate dags list` shows the state of each DAG")
    else:
        yield ReleaseDag(dag_id, state.now)
        yield WakeBackfills(dag_id, state.now)
