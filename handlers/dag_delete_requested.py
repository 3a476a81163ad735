"""A user deletes a stale DAG, with its versions, its runs and its pending events; also a held one, whose version is not read."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.runs.rejections import no_such_dag
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.backfill import WakeBackfills
from tidegate.schemas.effect.dag import DeleteDag, DeleteHistory
from tidegate.schemas.message import DagDeleteRequested, Message, request_of
from tidegate.schemas.queries import backfills, dags, files, references, runs
from tidegate.schemas.queries.db import Db

IN_A_FILE = "in_a_file"
HAS_RUNS = "has_runs"


class State(msgspec.Struct, frozen=True):
    """The DAG, locked. `is_stale` is None if it does not exist; `has_runs`: some are queued or running.

    `backfills` are its unfinished ones, `waiting` those of other DAGs whose cascades wait for runs of it.
    """

    now: datetime
    is_stale: bool | None
    has_runs: bool = False
    backfills: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()


async def load(db: Db, messages: Sequence[Message[DagDeleteRequested]]) -> State:
    request = request_of(messages)
    dag_id = request.dag_id
    if request.portion is None:
        await files.lock_files(db)  # no DAG file takes the DAG back
        await references.lock_ledger(db)  # no event is being queued for the DAG
    dag = (await dags.lock_unread(db, [dag_id])).get(dag_id)
    has_runs = await runs.any_unfinished(db, dag_id)
    own = tuple(each.id for each in await backfills.active_of(db, dag_id))
    return State(db.now, dag and dag.is_stale, has_runs, own, await backfills.waiting_for(db, dag_id))


def decide(messages: Sequence[Message[DagDeleteRequested]], state: State) -> Iterator[Effect]:
    request = request_of(messages)
    dag_id = request.dag_id
    if state.is_stale is None:
        yield no_such_dag(dag_id)
    elif reason := _why_not(dag_id, state):
        yield RejectMessage(*reason)
    elif request.portion is not None:
        yield DeleteHistory(dag_id, *request.portion)
    else:
        yield DeleteDag(dag_id)
        yield WakeBackfills(dag_id, state.now)  # of other DAGs, whose cascades come to this one


def _why_not(dag_id: str, state: State) -> tuple[str, str] | None:
    """Why an existing DAG is not deleted."""
    if not state.is_stale:
        message = f"DAG {dag_id!r} is still in a DAG file; remove it there, and wait until `tidegate dags list` calls it stale"
        return IN_A_FILE, message
    if state.has_runs:
        return HAS_RUNS, f"DAG {dag_id!r} has active or queued runs; `tidegate runs cancel {dag_id} RUN` ends them"
    if state.backfills:
        return (
            HAS_RUNS,
            f"DAG {dag_id!r} has backfill {state.backfills[0]}; `tidegate backfills cancel {state.backfills[0]}` ends it",
        )
    if state.waiting:
        id_ = state.waiting[0]
        message = f"backfill {id_} waits for DAG {dag_id!r}, whose runs it runs again"
        return HAS_RUNS, f"{message}; add the DAG to a DAG file, or cancel it: `tidegate backfills cancel {id_}`"
    return None
