"""Why a run failed: its tasks that failed first, in words."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from tidegate.handlers.runs.reason import NO_REASON, Reason
from tidegate.handlers.tasks.advance import Advance, Move
from tidegate.schemas.graph import Graph, element_of
from tidegate.schemas.notice import FailedTask
from tidegate.schemas.state import RunState, TaskState

MAX_FAILED_TASKS = 3
"""The most failed tasks that a run names."""


def failed_tasks(graph: Graph, step: Advance, earlier: Sequence[FailedTask]) -> tuple[FailedTask, ...]:
    """The first tasks that failed, `earlier` or in this step. The instances of a mapped task stand for it."""
    mapped = _expanded(step)
    failed = [*earlier, *(_failed(graph, move) for move in step.moves if _is_failure(move) and move.index not in mapped)]
    return tuple(failed[:MAX_FAILED_TASKS])


def with_failure_reasons(graph: Graph, step: Advance, failed: Sequence[FailedTask]) -> Advance:
    """The step with the first failures of its instances in the reason of each mapped task that fails."""
    mapped = _expanded(step)
    if not any(_is_failure(move) and move.index in mapped for move in step.moves):
        return step
    reasons = {index: _of_instances(graph, index, failed) for index in mapped}
    moves = [_with_reason(move, reasons.get(move.index, "")) if _is_failure(move) else move for move in step.moves]
    said = {move.index: move.reason for move in moves}
    changed = [msgspec.structs.replace(it, reason=said[it.index]) if it.index in said else it for it in step.changed]
    return msgspec.structs.replace(step, moves=tuple(moves), changed=tuple(changed))


def failure_text(failed: Sequence[FailedTask]) -> str:
    """One sentence: `task load failed in try 2: ValueError: no rows; so did check and report`."""
    if not failed:
        return ""
    first, *others = failed
    names = " and ".join(task.label for task in others)
    return f"task {_described(first)}" + (f"; so did {names}" if names else "")


def reason_of(state: RunState, failed: tuple[FailedTask, ...]) -> Reason:
    """Why a run gets a state by the ends of its tasks."""
    return Reason(failure_text(failed), failed=failed) if state is RunState.FAILED else NO_REASON


def _described(task: FailedTask) -> str:
    tries = f" in try {task.try_number}" if task.try_number else ""
    return f"{task.label} failed{tries}" + (f": {task.reason}" if task.reason else "")


def _is_failure(move: Move) -> bool:
    return move.state is TaskState.FAILED


def _expanded(step: Advance) -> frozenset[int]:
    """The mapped tasks that have instances."""
    return frozenset(instance.index for instance in step.changed if instance.elements)


def _of_instances(graph: Graph, index: int, failed: Sequence[FailedTask]) -> str:
    task_id = graph.node(index).task.task_id
    return failure_text([task for task in failed if task.task_id == task_id]).removeprefix("task ")


def _with_reason(move: Move, more: str) -> Move:
    return msgspec.structs.replace(move, reason=f"{move.reason}: {more}") if more else move


def _failed(graph: Graph, move: Move) -> FailedTask:
    return FailedTask(
        task_id=graph.node(move.index).task.task_id,
        map_index=UNSET if (element := element_of(move.index)) is None else element,
        try_number=move.try_number,
        reason=move.reason,
        log=move.log or UNSET,
    )
