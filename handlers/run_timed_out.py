"""Fail runs that take longer than `dagrun_timeout`, and start the next runs of their DAGs."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.load import lock_runs, read_dags
from tidegate.handlers.runs.terminate import fail
from tidegate.handlers.scheduling.next_runs import RunEnd, end_of, schedule_each_after_ends
from tidegate.handlers.scheduling.read_plan import ReadReason
from tidegate.schemas.effect import Effect
from tidegate.schemas.error import Faults
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import Message, RunTimedOut
from tidegate.schemas.queries import dags, runs, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RunState
from tidegate.schemas.view import DagView, Instance, RunView


class State(msgspec.Struct, frozen=True):
    """The runs that are still running past their timeout, with all their tasks, and their DAGs."""

    now: datetime
    dags: tuple[DagView, ...]
    runs: Sequence[RunView]
    graphs: Mapping[int, Graph]
    tasks: Mapping[int, Mapping[int, Instance]]


async def load(db: Db, messages: Sequence[Message[RunTimedOut]]) -> State:
    ids = [message.body.dag_run_id for message in messages]
    locked_dags = await dags.lock(db, await runs.dags_of(db, ids), skips=True)
    locked = await lock_runs(db, ids, locked_dags, skips=True)
    late = [run for run in locked.values() if run.state is RunState.RUNNING and run.is_late(db.now)]
    instances = await tasks.of_runs(db, [run.id for run in late])
    freed = await read_dags(db, locked_dags, ReadReason(ending_runs=Counter(run.dag_id for run in late if run.is_live)))
    return State(db.now, freed, late, await versions.graphs(db, {run.version_id for run in late}), instances)


def decide(_messages: Sequence[Message[RunTimedOut]], state: State) -> Iterator[Effect]:
    ended: dict[str, list[RunEnd]] = defaultdict(list)
    with Faults() as faults:
        for run in state.runs:
            with faults.of(run.dag_id):
                yield from _fail(run, state.graphs[run.version_id], state)
                if run.is_live:
                    ended[run.dag_id].append(end_of(run, RunState.FAILED))
        yield from schedule_each_after_ends(state.dags, ended, state.now)


def _fail(run: RunView, graph: Graph, state: State) -> Iterator[Effect]:
    reason = f"the run took longer than its dagrun_timeout, {graph.run_timeout_s or 0:g} s"
    instances = tuple(state.tasks.get(run.id, {}).values())
    yield from fail(run, graph, instances, state.now, reason=reason, timed_out=True)
