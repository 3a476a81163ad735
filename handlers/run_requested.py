"""A user requests a run: create it, and start it if the DAG has capacity."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.load import lock_dags
from tidegate.handlers.runs.create import create, queued_run
from tidegate.handlers.runs.rejections import PARAMS_CHANGED, no_such_dag
from tidegate.handlers.runs.run_ids import manual_run_id, reserved_prefix
from tidegate.handlers.scheduling.next_runs import set_wakeup
from tidegate.handlers.scheduling.run_limit import has_capacity
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.message import Message, RunRequested
from tidegate.schemas.queries import runs
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RunType
from tidegate.schemas.timetable.tick import Tick, manual_interval
from tidegate.schemas.view import DagView, RunView

RUN_EXISTS = "run_exists"
RESERVED_ID = "reserved_id"


class State(msgspec.Struct, frozen=True):
    """The DAG, locked; None when it does not exist. `existing` is the run that has the id or the logical date already."""

    now: datetime
    dag: DagView | None
    existing: str | None


async def load(db: Db, messages: Sequence[Message[RunRequested]]) -> State:
    (message,) = messages
    request, run_id = message.body, run_id_of(message)
    locked = await lock_dags(db, [request.dag_id])
    existing = run_id if await runs.exists(db, request.dag_id, run_id) else None
    if existing is None and request.logical_date is not None:
        existing = await runs.run_of_date(db, request.dag_id, request.logical_date)
    return State(locked.now, next(iter(locked.dags), None), existing)


def decide(messages: Sequence[Message[RunRequested]], state: State) -> Iterator[Effect]:
    (message,) = messages
    request = message.body
    if state.dag is None:
        yield no_such_dag(request.dag_id)
    elif prefix := reserved_prefix(run_id_of(message)):
        reason = f"run ids that begin with {prefix} are reserved for runs that Tidegate makes itself; choose another one"
        yield RejectMessage(RESERVED_ID, reason)
    elif state.existing is not None:
        yield RejectMessage(RUN_EXISTS, _exists(request, state.existing))
    elif state.dag.graph.params != request.params:
        reason = f"the parameters of DAG {request.dag_id!r} changed after the conf was checked; trigger the run again"
        yield RejectMessage(PARAMS_CHANGED, reason)
    else:
        run = new_run(state.dag, message, state.now)
        now = state.now
        is_due = run.run_after <= now
        yield from create(run, request.conf, state.dag.graph, now, started=is_due and starts_at_once(state.dag, now))
        if not is_due and (state.dag.due_at is None or run.run_after < state.dag.due_at):
            yield set_wakeup(state.dag, run.run_after)


def new_run(dag: DagView, message: Message[RunRequested], now: datetime) -> RunView:
    """The requested run. The timetable gives a logical date its data interval."""
    request = message.body
    tick = None
    run_after = request.run_after or now  # the clock of the client may be wrong
    if request.logical_date is not None:
        start, end = manual_interval(dag.graph.timetable, request.logical_date)
        tick = Tick(request.logical_date, start, end, run_after)
    return queued_run(dag.next_run_id, dag.graph, run_id_of(message), RunType.MANUAL, run_after, tick=tick)


def _exists(request: RunRequested, run_id: str) -> str:
    if request.logical_date is not None and run_id != request.run_id:
        return f"DAG {request.dag_id!r} already has run {run_id!r} for {request.logical_date.isoformat()}; clear that one"
    return f"DAG {request.dag_id!r} already has a run {run_id!r}"


def run_id_of(message: Message[RunRequested]) -> str:
    """The requested id, or one made from the time."""
    return message.body.run_id or manual_run_id(message.at)


def starts_at_once(dag: DagView, now: datetime) -> bool:
    """Whether a new run may start at once, without overtaking a queued run or a timed one that is due."""
    has_earlier = dag.queued or (dag.due_at is not None and dag.due_at <= now)
    return not dag.is_inactive and not has_earlier and has_capacity(dag)
