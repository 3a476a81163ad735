"""How a run is ended before its time: what waits is skipped, what works is killed, and the run has failed."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from tidegate.handlers.runs.create import run_ended, tasks_moved
from tidegate.handlers.runs.rows import update_task
from tidegate.handlers.tasks.advance import Advance, Move
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import ReconsiderAfter, UpdateRun
from tidegate.schemas.effect.submission import KillSubmissions
from tidegate.schemas.graph import Graph, element_of
from tidegate.schemas.state import TASK_ACTIVE, TASK_ENDED, TASK_FAILED, RunState, TaskState
from tidegate.schemas.view import Instance, RunView


def mark(
    run: RunView, graph: Graph, instances: Sequence[Instance], now: datetime, *, state: TaskState, reason: str
) -> Iterator[Effect]:
    """Have it that the run and all its tasks succeeded, whatever they did."""
    if any(instance.state in TASK_ACTIVE for instance in instances):
        yield KillSubmissions(run.id, None, reason)
    moves = []
    for instance in instances:
        if instance.state not in (state, TaskState.REMOVED):
            instance.state, instance.next_try_at = state, None
            yield update_task(run, instance, now)
            moves.append(Move(instance.index, state, instance.try_number, reason))
    seq = run.task_seq + len(moves)
    yield UpdateRun(run.id, RunState.SUCCESS, run.state_seq + 1, seq, 0, 0, 0, run.start_date, now)
    yield from tasks_moved(run, graph, Advance((), tuple(moves), 0, 0), now, outlets=False)
    yield from run_ended(run, graph, RunState.SUCCESS, run.state_seq + 1, now, reason)
    if graph.sequential:
        yield ReconsiderAfter(run.dag_id, run.id)


def stop(
    run: RunView,
    graph: Graph,
    instances: Sequence[Instance],
    now: datetime,
    *,
    reason: str,
    state: RunState = RunState.FAILED,
    working: TaskState = TaskState.SKIPPED,
    timed_out: bool = False,
) -> Iterator[Effect]:
    """End the run in `state`, its tasks that work in `working`; killing those takes effect later, and is seen through."""
    ended = [instance for instance in instances if instance.state not in TASK_ENDED]
    if any(instance.state in TASK_ACTIVE for instance in ended):
        yield KillSubmissions(run.id, None, reason)
    moves = []
    for instance in ended:
        instance.state = working if instance.state in TASK_ACTIVE else TaskState.SKIPPED
        instance.next_try_at = None
        yield update_task(run, instance, now)
        moves.append(Move(instance.index, instance.state, instance.try_number, reason))
    seq = run.task_seq + len(moves)
    failed = run.failed_leaves + sum(_fails_the_run(graph, move) for move in moves)
    yield UpdateRun(run.id, state, run.state_seq + 1, seq, 0, failed, 0, run.start_date, now)
    yield from tasks_moved(run, graph, Advance((), tuple(moves), 0, 0), now)
    yield from run_ended(run, graph, state, run.state_seq + 1, now, reason, timed_out=timed_out)
    if graph.sequential:
        yield ReconsiderAfter(run.dag_id, run.id)


def _fails_the_run(graph: Graph, move: Move) -> bool:
    return element_of(move.index) is None and graph.nodes[move.index].decisive and move.state in TASK_FAILED
