"""The tables of legal moves are the truth: decisions make every move in them and no other."""

from collections.abc import Iterator
from itertools import pairwise

from tests.shapes import graph
from tests.unit.handlers.world import World
from tidegate.schemas.state import RUN_MOVES, TASK_MOVES, RunState, TaskState

RunMove = tuple[RunState | None, RunState]


def retried_from_queued() -> World:
    world = World(graph("a*1", "b"), waits=True)
    world.admit("a", "b")
    world.finish(a=False, b=False)
    world.admit("a")
    world.finish(a=True)
    return world


def retried_from_running() -> World:
    world = World(graph("a*1", "b", "c < b"))
    world.admit("a", "b")
    world.accept("a", "b")
    world.finish(a=False, b=False)
    world.admit("a")
    world.accept("a")
    world.finish(a=True)
    return world


def without_a_worker() -> World:
    return World(graph("a!"))


def task_moves(world: World) -> Iterator[tuple[TaskState, TaskState]]:
    before = dict.fromkeys(world.index, TaskState.NONE)
    for event in world.published:
        yield before[event.task_id], TaskState(event.state)
        before[event.task_id] = TaskState(event.state)


def run_moves(world: World) -> Iterator[RunMove]:
    states = [None, *(RunState(event.state) for event in world.journal)]
    yield from pairwise(states)


LIVES = (retried_from_queued, retried_from_running, without_a_worker)


def test_tasks_make_every_move_in_the_table_and_no_other() -> None:
    made = {move for live in LIVES for move in task_moves(live())}

    assert made == TASK_MOVES


def test_runs_make_every_move_in_the_table_and_no_other() -> None:
    made = {move for live in LIVES for move in run_moves(live())}

    assert made == RUN_MOVES
