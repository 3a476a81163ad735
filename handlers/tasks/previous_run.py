"""Whether the run before allows a task to run: `depends_on_past` and `wait_for_downstream`."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from tidegate.schemas.graph import Graph
from tidegate.schemas.queries import runs, tasks
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import RunState, TaskState

FINE = frozenset({TaskState.SUCCESS, TaskState.SKIPPED, TaskState.REMOVED})


class Past(msgspec.Struct, frozen=True):
    """The run of the DAG before this one. `states` are its tasks' by id; None where it has not started."""

    states: Mapping[str, TaskState] | None


async def pasts(db: Db, ids: Sequence[int]) -> Mapping[int, Past]:
    """What came before each of these runs. One that ended without having started has no tasks, and holds up nobody."""
    before = await runs.before(db, ids) if ids else {}
    states: dict[int, dict[str, TaskState]] = defaultdict(dict)
    for dag_run_id, task_id, state in await tasks.states(db, {id_ for id_, _ in before.values()}) if before else ():
        states[dag_run_id][task_id] = state
    return {
        id_: Past(states.get(previous, {}) if state is not RunState.QUEUED else states.get(previous))
        for id_, (previous, state) in before.items()
    }


def allows(past: Past | None, graph: Graph, index: int) -> bool:
    """Whether the run before holds up nothing of it."""
    return not held_by(past, graph, index)


def held_by(past: Past | None, graph: Graph, index: int) -> tuple[str, ...]:
    """The tasks of the run before that hold it up; itself, where that run has not started.

    A task that was no part of the run before is treated as the first of its kind.
    """
    task = graph.nodes[index].task
    if past is None:
        return ()
    if past.states is None:
        return (task.task_id,)
    if past.states.get(task.task_id, TaskState.REMOVED) is TaskState.REMOVED:
        return () if task.ignore_first_depends_on_past else (task.task_id,)
    waited_for = [task.task_id]
    if task.wait_for_downstream:
        waited_for += [graph.nodes[below].task.task_id for below in graph.nodes[index].downstream]
    return tuple(task_id for task_id in waited_for if past.states.get(task_id, TaskState.SUCCESS) not in FINE)
