"""A user deletes a stale DAG, with its versions, its runs and its pending events."""

from collections.abc import Iterator, Sequence

from tidegate.handlers.load import LockedDags, lock_dags
from tidegate.handlers.runs.rejections import no_such_dag
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.dag import DeleteDag
from tidegate.schemas.message import DagDeleteRequested, Message
from tidegate.schemas.queries import references
from tidegate.schemas.queries.db import Db

IN_A_FILE = "in_a_file"
HAS_RUNS = "has_runs"


async def load(db: Db, messages: Sequence[Message[DagDeleteRequested]]) -> LockedDags:
    (message,) = messages
    await references.lock_ledger(db)  # no event is being queued for the DAG
    return await lock_dags(db, [message.body.dag_id])


def decide(messages: Sequence[Message[DagDeleteRequested]], state: LockedDags) -> Iterator[Effect]:
    dag_id = messages[0].body.dag_id
    dag = next(iter(state.dags), None)
    if dag is None:
        yield no_such_dag(dag_id)
    elif not dag.is_stale:
        message = f"DAG {dag_id!r} is still in a DAG file; remove it there, and wait until `tidegate dags list` calls it stale"
        yield RejectMessage(0, IN_A_FILE, message)
    elif dag.running or dag.queued or dag.next_queued_at is not None:
        message = f"DAG {dag_id!r} has active or queued runs; `tidegate runs cancel {dag_id} RUN` ends them"
        yield RejectMessage(0, HAS_RUNS, message)
    else:
        yield DeleteDag(dag_id)
