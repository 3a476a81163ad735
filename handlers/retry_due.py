"""Tasks whose retry delay has passed are scheduled again."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.runs.task_effects import update_task
from tidegate.handlers.runs.transition import change_run
from tidegate.handlers.tasks.advance import Move
from tidegate.schemas.effect import Effect
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import Message, RetryDue
from tidegate.schemas.queries import runs, tasks, versions
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import Instance, RunView


class State(msgspec.Struct, frozen=True):
    """The tasks, by run, under the locks of their runs."""

    now: datetime
    runs: Mapping[int, RunView]
    graphs: Mapping[int, Graph]
    tasks: Mapping[int, Sequence[Instance]]


async def load(db: Db, messages: Sequence[Message[RetryDue]]) -> State:
    keys = {(message.body.dag_run_id, message.body.task_index) for message in messages}
    locked = await runs.lock(db, {dag_run_id for dag_run_id, _ in keys}, skips=True)
    instances: dict[int, list[Instance]] = defaultdict(list)
    for (dag_run_id, _), instance in (await tasks.instances(db, keys)).items():
        instances[dag_run_id].append(instance)
    return State(db.now, locked, await versions.graphs(db, {run.version_id for run in locked.values()}), instances)


def decide(_messages: Sequence[Message[RetryDue]], state: State) -> Iterator[Effect]:
    for dag_run_id, instances in state.tasks.items():
        due = [instance for instance in instances if _is_due(instance, state.now)]
        run = state.runs.get(dag_run_id)  # None: its DAG is held meanwhile, or another session holds it
        if due and run is not None and run.state is RunState.RUNNING:
            yield from _schedule(run, due, state)


def _is_due(instance: Instance, now: datetime) -> bool:
    return instance.state is TaskState.UP_FOR_RETRY and instance.next_try_at is not None and instance.next_try_at <= now


def _schedule(run: RunView, due: Sequence[Instance], state: State) -> Iterator[Effect]:
    for instance in due:
        instance.state, instance.next_try_at = TaskState.SCHEDULED, None
        yield update_task(run, instance, state.now)
    moves = [Move(instance.index, TaskState.SCHEDULED, instance.try_number) for instance in due]
    yield from change_run(run, run, state.graphs[run.version_id], moves, state.now)
