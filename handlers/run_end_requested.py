"""A user fails a run, or marks it as succeeded or failed."""

from collections.abc import Iterator, Sequence

from tidegate.handlers.load import WholeRun, lock_run
from tidegate.handlers.runs.rejections import ALREADY_ENDED, no_such_dag, no_such_run
from tidegate.handlers.runs.terminate import fail, mark_success
from tidegate.handlers.scheduling.next_runs import schedule_after_ends
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.message import Message, RunEndRequested
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RUN_ENDED, RunState
from tidegate.schemas.view import RunView


async def load(db: Db, messages: Sequence[Message[RunEndRequested]]) -> WholeRun:
    (request,) = (message.body for message in messages)
    return await lock_run(db, request.dag_id, request.run_id)


def decide(messages: Sequence[Message[RunEndRequested]], state: WholeRun) -> Iterator[Effect]:
    (request,) = (message.body for message in messages)
    if state.dag is None:
        yield no_such_dag(request.dag_id)
    elif state.run is None or state.graph is None:
        yield no_such_run(request.dag_id, request.run_id)
    elif state.run.state is request.state or (request.only_if_active and state.run.state in RUN_ENDED):
        yield RejectMessage(0, ALREADY_ENDED, f"run {request.run_id!r} has already ended as {state.run.state}")
    elif request.state is RunState.SUCCESS:
        yield from mark_success(state.run, state.graph, state.tasks, state.now, request.reason)
        yield from schedule_after_ends(state.dag, _ended(state.run, request.state), state.now)
    else:
        yield from fail(state.run, state.graph, state.tasks, state.now, reason=request.reason)
        yield from schedule_after_ends(state.dag, _ended(state.run, request.state), state.now)


def _ended(run: RunView, state: RunState) -> list[RunState]:
    """The ends that count for the DAG's limits and failures: none where the run was not running."""
    return [state] if run.state is RunState.RUNNING else []
