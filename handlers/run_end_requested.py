"""A user ends a run, or has it that it ended otherwise than it did."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.load_dags import read_dags
from tidegate.handlers.run_requested import no_such_dag
from tidegate.handlers.runs.terminate import mark, stop
from tidegate.handlers.scheduling.next_runs import settle_after
from tidegate.handlers.scheduling.read_plan import ReadReason
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import Message, RunEndRequested
from tidegate.schemas.queries import dags, runs, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RUN_ENDED, RunState, TaskState
from tidegate.schemas.view import DagView, Instance, RunView

NO_SUCH_RUN = "no_such_run"
ENDED_SO = "ended_so"


class State(msgspec.Struct, frozen=True):
    """The DAG and the run with all its tasks, locked; None for what there is not."""

    now: datetime
    dag: DagView | None = None
    run: RunView | None = None
    graph: Graph | None = None
    tasks: tuple[Instance, ...] = ()


async def load(db: Db, messages: Sequence[Message[RunEndRequested]]) -> State:
    (asked,) = (message.body for message in messages)
    return await find(db, asked.dag_id, asked.run_id)


async def find(db: Db, dag_id: str, run_id: str) -> State:
    """A run as a whole."""
    held = await dags.lock(db, [dag_id])
    locked = await runs.lock(db, await runs.matching(db, dag_id, run_id, None, None)) if held else {}
    found = await read_dags(db, held, ReadReason(ending_runs={dag_id: 1}))
    for run in locked.values():
        graphs = await versions.graphs(db, {run.version_id})
        instances = await tasks.of_runs(db, [run.id])
        return State(db.now, found[0], run, graphs[run.version_id], tuple(instances.values()))
    return State(db.now, found[0] if found else None)


def decide(messages: Sequence[Message[RunEndRequested]], state: State) -> Iterator[Effect]:
    (asked,) = (message.body for message in messages)
    if state.dag is None:
        yield no_such_dag(asked.dag_id)
    elif state.run is None or state.graph is None:
        yield RejectMessage(0, NO_SUCH_RUN, f"DAG {asked.dag_id!r} has no run {asked.run_id!r}")
    elif state.run.state is asked.state or (asked.going and state.run.state in RUN_ENDED):
        yield RejectMessage(0, ENDED_SO, f"run {asked.run_id!r} has ended as {state.run.state} already")
    elif asked.state is RunState.SUCCESS:
        yield from mark(state.run, state.graph, state.tasks, state.now, state=TaskState.SUCCESS, reason=asked.reason)
        yield from settle_after(state.dag, _ended(state.run, asked.state), state.now)
    else:
        yield from stop(state.run, state.graph, state.tasks, state.now, reason=asked.reason, working=TaskState.FAILED)
        yield from settle_after(state.dag, _ended(state.run, asked.state), state.now)


def _ended(run: RunView, state: RunState) -> list[RunState]:
    """What ended by that for the DAG: nothing where the run was not running."""
    return [state] if run.state is RunState.RUNNING else []
