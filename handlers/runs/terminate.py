"""Ends or marks a run with all its tasks. Killed attempts end later."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from tidegate.handlers.runs.reason import Reason
from tidegate.handlers.runs.task_effects import update_task
from tidegate.handlers.runs.transition import change_run
from tidegate.handlers.tasks.advance import Move
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import ReconsiderAfter
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.graph import Graph, element_of
from tidegate.schemas.notice import FailedTask
from tidegate.schemas.state import TASK_ACTIVE, TASK_ENDED, TASK_FAILED, RunState, TaskState
from tidegate.schemas.view import Instance, RunView


def mark_success(run: RunView, graph: Graph, instances: Sequence[Instance], now: datetime, reason: str) -> Iterator[Effect]:
    """Set the run and all its tasks to success, also the ones that have ended otherwise. Their outlets are not updated."""
    changes = [(i, TaskState.SUCCESS) for i in instances if i.state not in (TaskState.SUCCESS, TaskState.REMOVED)]
    after = msgspec.structs.replace(run, state=RunState.SUCCESS, failed_leaves=0)
    yield from _end(run, after, graph, changes, now, Reason(reason, outlets=False))


def fail(
    run: RunView,
    graph: Graph,
    instances: Sequence[Instance],
    now: datetime,
    *,
    reason: str,
    timed_out: bool = False,
    failed: tuple[FailedTask, ...] = (),
) -> Iterator[Effect]:
    """Fail the run. Its active tasks are killed and fail, or are skipped where the run `timed_out`; waiting tasks are skipped.

    `failed`: the tasks that the run fails for.
    """
    killed = TaskState.SKIPPED if timed_out else TaskState.FAILED
    changes = [(i, killed if i.state in TASK_ACTIVE else TaskState.SKIPPED) for i in instances if i.state not in TASK_ENDED]
    failed_leaves = sum(state in TASK_FAILED and _is_decisive(graph, instance) for instance, state in changes)
    after = msgspec.structs.replace(run, state=RunState.FAILED, failed_leaves=run.failed_leaves + failed_leaves)
    yield from _end(run, after, graph, changes, now, Reason(reason, timed_out, failed=failed))


def _is_decisive(graph: Graph, instance: Instance) -> bool:
    return element_of(instance.index) is None and graph.nodes[instance.index].decisive


def _end(
    run: RunView, after: RunView, graph: Graph, changes: Sequence[tuple[Instance, TaskState]], now: datetime, reason: Reason
) -> Iterator[Effect]:
    """End all tasks of the run, by changing these instances."""
    if any(instance.state in TASK_ACTIVE for instance, _ in changes):
        yield KillSubmissions(run.id, None, reason.text)
    for instance, state in changes:
        instance.state, instance.next_try_at, instance.reason = state, None, reason.text
        yield update_task(run, instance, now)
    after = msgspec.structs.replace(after, unfinished=0, active_tasks=0)
    moves = [Move(instance.index, state, instance.try_number, reason.text) for instance, state in changes]
    yield from change_run(run, after, graph, moves, now, reason)
    if graph.sequential:
        yield ReconsiderAfter(run.dag_id, run.id)
