"""A user fails a run, or marks it as succeeded or failed; also where its DAG is held, or its version cannot be read."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from tidegate.handlers.load import WholeRun, lock_run, lock_run_unread
from tidegate.handlers.runs.rejections import ALREADY_ENDED, no_such_dag, no_such_run
from tidegate.handlers.runs.terminate import fail, mark_success
from tidegate.handlers.scheduling.next_runs import after_corrected_failure, end_of, schedule_after_ends
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.dag import WakeDag
from tidegate.schemas.error import DagFaultError
from tidegate.schemas.message import Message, RunEndRequested, request_of
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RUN_ENDED, RunState
from tidegate.schemas.view import RunView


async def load(db: Db, messages: Sequence[Message[RunEndRequested]]) -> WholeRun:
    request = request_of(messages)
    with suppress(DagFaultError):
        whole = await lock_run(db, request.dag_id, request.run_id)
        if whole.dag is not None:
            return whole
    return await lock_run_unread(db, request.dag_id, request.run_id)


def decide(messages: Sequence[Message[RunEndRequested]], state: WholeRun) -> Iterator[Effect]:
    request = request_of(messages)
    if state.run is None or state.graph is None:
        yield no_such_run(request.dag_id, request.run_id) if state.dag_exists else no_such_dag(request.dag_id)
    elif state.run.state is request.state or (request.only_if_active and state.run.state in RUN_ENDED):
        yield RejectMessage(ALREADY_ENDED, f"run {request.run_id!r} has already ended as {state.run.state}")
    else:
        if request.state is RunState.SUCCESS:
            yield from mark_success(state.run, state.graph, state.tasks, state.now, request.reason)
        else:
            yield from fail(state.run, state.graph, state.tasks, state.now, reason=request.reason)
        yield from _next_runs(state, state.run, request.state)


def _next_runs(state: WholeRun, run: RunView, ended: RunState) -> Iterator[Effect]:
    """The end counts for the DAG's limits and failures if the run was running. Without the DAG the clock decides later."""
    if state.dag is None:
        yield WakeDag(run.dag_id, state.now)
    elif run.is_live and run.state is RunState.RUNNING:
        yield from schedule_after_ends(state.dag, [end_of(run, ended)], state.now)
    elif run.is_live and run.state is RunState.FAILED:
        yield from after_corrected_failure(state.dag)
