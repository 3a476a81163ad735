"""The decisions make exactly the moves in the tables of legal moves."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise

from tests.shapes import NOW, graph, task
from tests.unit.handlers.simulated_run import SimulatedRun
from tidegate.handlers.runs.terminate import fail
from tidegate.schemas.state import RUN_ENDED, RUN_MOVES, TASK_ENDED, TASK_MOVES, RunState, TaskState

RunMove = tuple[RunState | None, RunState]
TaskMove = tuple[TaskState, TaskState]

BY_USERS: frozenset[TaskMove] = frozenset(
    {
        *((ended, state) for ended in TASK_ENDED for state in (TaskState.NONE, TaskState.SUCCESS, TaskState.FAILED)),
        *((state, TaskState.NONE) for state in (TaskState.SCHEDULED, TaskState.UP_FOR_RETRY)),
        *((state, TaskState.SUCCESS) for state in (TaskState.SCHEDULED, TaskState.UP_FOR_RETRY)),
        *((state, TaskState.FAILED) for state in (TaskState.NONE, TaskState.SCHEDULED, TaskState.UP_FOR_RETRY)),
        *(
            (state, TaskState.REMOVED)
            for state in (TaskState.SCHEDULED, TaskState.UP_FOR_RETRY, TaskState.QUEUED, TaskState.RUNNING)
        ),
        *((ended, TaskState.REMOVED) for ended in TASK_ENDED),
        *((active, TaskState.NONE) for active in (TaskState.QUEUED, TaskState.RUNNING)),
        (TaskState.QUEUED, TaskState.SCHEDULED),
    }
) - {(ended, ended) for ended in TASK_ENDED}
"""Moves that only requests make: clear, mark, or change of the version."""

RUNS_BY_USERS: frozenset[RunMove] = frozenset(
    {
        *((RunState.QUEUED, ended) for ended in RUN_ENDED),
        *((ended, RunState.QUEUED) for ended in RUN_ENDED),
        (RunState.SUCCESS, RunState.FAILED),
        (RunState.FAILED, RunState.SUCCESS),
    }
)


def retried_from_queued() -> SimulatedRun:
    world = SimulatedRun(graph("a*1", "b"), waits=True)
    world.admit("a", "b")
    world.finish(a=False, b=False)
    world.retry("a")
    world.admit("a")
    world.finish(a=True)
    return world


def retried_from_running() -> SimulatedRun:
    world = SimulatedRun(graph("a*1", "b", "c < b"))
    world.admit("a", "b")
    world.accept("a", "b")
    world.finish(a=False, b=False)
    world.retry("a")
    world.admit("a")
    world.accept("a")
    world.finish(a=True)
    return world


def without_a_worker() -> SimulatedRun:
    return SimulatedRun(graph("a!"))


def skipped() -> SimulatedRun:
    world = SimulatedRun(graph("a", "b", "c < b"))
    world.admit("a", "b")
    world.accept("b")
    world.finish(a=TaskState.SKIPPED, b=TaskState.SKIPPED)
    return world


def outside_its_dates() -> SimulatedRun:
    return SimulatedRun(graph(task("a", start_date=NOW)), logical_date=NOW - timedelta(days=1))


def stopped(*, timed_out: bool) -> SimulatedRun:
    world = SimulatedRun(graph("scheduled", "queued", "running", "failed*1", "none < running"))
    world.admit("queued", "running", "failed")
    world.accept("running")
    world.finish(failed=False)
    found = world.whole()
    world.apply(fail(world.run, world.graph, tuple(found.tasks[1].values()), NOW, reason="enough", timed_out=timed_out))
    return world


def task_moves(world: SimulatedRun) -> Iterator[TaskMove]:
    before = dict.fromkeys(world.index, TaskState.NONE)
    for event in world.published:
        yield before[event.label], TaskState(event.state)
        before[event.label] = TaskState(event.state)


def run_moves(world: SimulatedRun) -> Iterator[RunMove]:
    states = [None, *(RunState(event.state) for event in world.journal)]
    yield from pairwise(states)


LIVES = (
    *(retried_from_queued, retried_from_running, without_a_worker, skipped, outside_its_dates),
    *(lambda: stopped(timed_out=True), lambda: stopped(timed_out=False)),
)


def test_tasks_make_exactly_the_moves_of_the_table_apart_from_requests() -> None:
    made = {move for live in LIVES for move in task_moves(live())}

    assert made == TASK_MOVES - BY_USERS


def test_runs_make_exactly_the_moves_of_the_table_apart_from_requests() -> None:
    made = {move for live in LIVES for move in run_moves(live())}

    assert made == RUN_MOVES - RUNS_BY_USERS


def test_the_moves_of_requests_are_legal() -> None:
    assert BY_USERS <= TASK_MOVES
    assert RUNS_BY_USERS <= RUN_MOVES
