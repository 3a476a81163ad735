"""A user cancels runs of a DAG that have not ended; also where the DAG is held, or a version cannot be read."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

import msgspec

from tidegate.handlers.load import read_dags
from tidegate.handlers.runs.rejections import ALREADY_ENDED, no_such_dag
from tidegate.handlers.runs.terminate import fail
from tidegate.handlers.scheduling.next_runs import end_of, schedule_after_ends
from tidegate.handlers.scheduling.read_plan import ReadReason
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.dag import WakeDag
from tidegate.schemas.error import DagFaultError
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import Message, RunsCancelled, request_of
from tidegate.schemas.queries import dags, runs, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RUN_ENDED, RunState
from tidegate.schemas.view import DagView, Instance, RunView

MAX_CANCELLED_TASKS = 50_000
"""About the most tasks of the runs that one transaction ends, unless it is one run. The others stay for the next request."""


class State(msgspec.Struct, frozen=True):
    """The DAG, and the first of the requested runs with all their tasks, locked. `dag` None: it is held, or cannot be read.

    `dag_exists` is False for an unknown one.
    """

    now: datetime
    dag: DagView | None = None
    dag_exists: bool = True
    runs: Mapping[int, RunView] = {}
    graphs: Mapping[int, Graph] = {}
    tasks: Mapping[int, Mapping[int, Instance]] = {}


async def load(db: Db, messages: Sequence[Message[RunsCancelled]]) -> State:
    request = request_of(messages)
    if request.dag_id not in await dags.lock_unread(db, [request.dag_id]):
        return State(db.now, dag_exists=False)
    found = await runs.active_of(db, request.dag_id, request.run_ids)
    locked = await runs.lock_unread(db, await tasks.first_runs(db, found, MAX_CANCELLED_TASKS))
    dag, graphs = None, None
    with suppress(DagFaultError):
        reason = ReadReason(ending_runs={request.dag_id: len(locked)})
        dag = next(iter(await read_dags(db, await dags.lock(db, [request.dag_id]), reason)), None)
        graphs = await versions.graphs(db, {run.version_id for run in locked.values()}) if dag else None
    if graphs is None:
        dag, graphs = None, await versions.names_only(db, locked.values())
    return State(db.now, dag, runs=locked, graphs=graphs, tasks=await tasks.of_runs(db, locked))


def decide(messages: Sequence[Message[RunsCancelled]], state: State) -> Iterator[Effect]:
    request = request_of(messages)
    active = [run for run in state.runs.values() if run.state not in RUN_ENDED]
    if not state.dag_exists:
        yield no_such_dag(request.dag_id)
    elif not active:
        yield RejectMessage(ALREADY_ENDED, f"none of these runs of DAG {request.dag_id!r} is queued or running")
    for run in active:
        instances = tuple(state.tasks.get(run.id, {}).values())
        yield from fail(run, state.graphs[run.version_id], instances, state.now, reason=request.reason)
    if active:
        yield from _next_runs(request.dag_id, active, state)


def _next_runs(dag_id: str, cancelled: Sequence[RunView], state: State) -> Iterator[Effect]:
    """The ends count for the limits of the DAG if the runs were running.

    Without the DAG the clock decides later. So it does about the runs that stand in the queue behind cancelled ones: the DAG was
    read with the first of its queue only.
    """
    live = [run for run in cancelled if run.is_live]
    queued = {run.id for run in live if run.state is RunState.QUEUED}
    if state.dag is not None:
        left = tuple(each for each in state.dag.queued_runs if each.run.id not in queued)
        dag = msgspec.structs.replace(state.dag, queued=state.dag.queued - len(queued), queued_runs=left)
        ends = [end_of(run, RunState.FAILED) for run in live if run.state is RunState.RUNNING]
        yield from schedule_after_ends(dag, ends, state.now)
    if state.dag is None or queued:
        yield WakeDag(dag_id, state.now)
