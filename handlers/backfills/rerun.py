"""A run that exists runs again for a backfill, with the version of the backfill and under its limits."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from tidegate.handlers.runs.change_version import change_version
from tidegate.handlers.runs.clear import clear_tasks, cleared_by
from tidegate.handlers.runs.clear_selection import tasks_to_clear
from tidegate.handlers.runs.reason import Reason
from tidegate.handlers.runs.task_effects import demand
from tidegate.handlers.runs.transition import change_run
from tidegate.schemas.backfill import BackfillView, Outlets
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.backfill import TakeRun
from tidegate.schemas.effect.run import ChangeVersion
from tidegate.schemas.effect.task import SetTaskDemand
from tidegate.schemas.graph import Graph, element_of
from tidegate.schemas.message import ClearRequested
from tidegate.schemas.params import conf_with_defaults
from tidegate.schemas.state import TASK_FAILED, RunState, TaskState
from tidegate.schemas.view import Instance, RunView


class LockedRun(msgspec.Struct, frozen=True):
    """A locked run, ended or not, with the graph of its version and all its tasks; without tasks if it never started."""

    run: RunView
    graph: Graph
    tasks: Mapping[int, Instance]


def as_run_of(run: RunView, backfill: BackfillView) -> RunView:
    """The run as one of the backfill."""
    return msgspec.structs.replace(
        run,
        backfill_id=backfill.id,
        pool=backfill.pool,
        priority=backfill.priority,
        updates_outlets=backfill.outlets is not Outlets.NONE,
    )


def run_again(backfill: BackfillView, graph: Graph, locked: LockedRun, now: datetime, *, only_failed: bool) -> Iterator[Effect]:
    """Queue an ended run with the version of the backfill, whose graph is `graph`, or with its own one if that is newer.

    `only_failed`: of a run that has failed tasks, only these run again, and what follows them.
    """
    run = as_run_of(locked.run, backfill)
    yield take_run(run, backfill, graph)
    if run.has_tasks:
        yield from _clear(run, graph, locked, now, only_failed=only_failed)
    else:
        yield from _queue(run, graph, locked, now)


def take_run(run: RunView, backfill: BackfillView, graph: Graph) -> TakeRun:
    """Make the run one of the backfill, with its parameters and the defaults of `graph`."""
    return TakeRun(run.id, backfill.id, _conf(backfill, graph), run.pool, run.priority, run.updates_outlets)


def _conf(backfill: BackfillView, graph: Graph) -> dict[str, Any] | None:
    """A backfill without parameters leaves those of the run, and so does one of the run of a consumer."""
    return conf_with_defaults(graph.params, backfill.dag_params) if backfill.dag_params and not backfill.stage else None


def _clear(run: RunView, graph: Graph, locked: LockedRun, now: datetime, *, only_failed: bool) -> Iterator[Effect]:
    """A run of a newer version keeps it: the tries of a task that it lacks would begin anew, and their ids repeat."""
    instances = dict(locked.tasks)
    if run.version_id < graph.version_id:
        effects, instances = change_version(run, locked.graph, graph, instances, now)
        yield from effects
    else:
        graph = locked.graph
        yield from demands(run, graph, locked)
    names = _failed(graph, instances) if only_failed else ()
    cleared = tasks_to_clear(graph, instances, ClearRequested(dag_id=run.dag_id, task_ids=names))
    yield from clear_tasks(run, graph, instances, cleared, now, cause=cleared_by(_requester(run)))


def _requester(run: RunView) -> str:
    return f"backfill {run.backfill_id}"


def demands(run: RunView, graph: Graph, locked: LockedRun) -> Iterator[SetTaskDemand]:
    """The pool and the priority of the backfill, for tasks that exist."""
    if (run.pool, run.priority) != (locked.run.pool, locked.run.priority):
        present = (index for index, instance in locked.tasks.items() if instance.state is not TaskState.REMOVED)
        yield from (SetTaskDemand(run.id, index, demand(run, graph.node(index).task)) for index in present)


def _failed(graph: Graph, instances: Mapping[int, Instance]) -> tuple[str, ...]:
    """The failed tasks, whose downstream tasks are cleared, too: the end of a run skips them. None failed: all are cleared."""
    failed = {i for i, instance in instances.items() if instance.state in TASK_FAILED and element_of(i) is None}
    return tuple(graph.nodes[i].task.task_id for i in sorted(failed))


def _queue(run: RunView, graph: Graph, locked: LockedRun, now: datetime) -> Iterator[Effect]:
    """A run that ended before it started has no tasks to clear."""
    if run.version_id < graph.version_id:
        yield ChangeVersion(run.id, graph.version_id, graph.max_active_tasks, ())
    else:
        graph = locked.graph
    after = msgspec.structs.replace(run, state=RunState.QUEUED, unfinished=len(graph.nodes))
    yield from change_run(run, after, graph, (), now, Reason(cleared_by(_requester(run))))
