"""A run of a backfill that has not ended moves to a newer version of its DAG, unless a task of it has begun."""

from collections.abc import Collection, Iterator
from datetime import datetime

from tidegate.handlers.backfills.rerun import LockedRun, take_run
from tidegate.handlers.runs.change_version import change_version
from tidegate.handlers.runs.clear import clear_tasks, cleared_by
from tidegate.schemas.backfill import BackfillView
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import ChangeVersion
from tidegate.schemas.graph import Graph, element_of
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import Instance

WAITING = frozenset({TaskState.NONE, TaskState.SCHEDULED})


def move_to_version(backfill: BackfillView, found: LockedRun, graph: Graph, now: datetime) -> Iterator[Effect]:
    """The waiting tasks of the run are decided anew. A run without tasks gets those of the version when it starts."""
    run = found.run
    if run.version_id >= graph.version_id or not may_move(run.state, found.tasks.values()):
        return
    yield take_run(run, backfill, graph)
    if not found.tasks:
        yield ChangeVersion(run.id, graph.version_id, graph.max_active_tasks, ())
        return
    effects, instances = change_version(run, found.graph, graph, dict(found.tasks), now)
    yield from effects
    waiting = [index for index, instance in instances.items() if instance.state in WAITING and element_of(index) is None]
    yield from clear_tasks(run, graph, instances, waiting, now, cause=cleared_by(f"backfill {backfill.id}"))


def may_move(state: RunState, instances: Collection[Instance]) -> bool:
    """A queued run may, as a failed one does that is retried; a running one only before its first task."""
    return state is RunState.QUEUED or all(instance.state in WAITING | {TaskState.REMOVED} for instance in instances)
