"""Which waiting tasks get a slot."""

import msgspec
import pytest

from tests.shapes import NOW, graph, message
from tests.unit.handlers.world import World
from tidegate.handlers.tasks_ready import State, decide, submission_id
from tidegate.schemas.dag import CommandTask, FunctionTask, SqlTask, SubmitTask, TaskSpec
from tidegate.schemas.effect import InsertSubmission, TaskMoved, UpdateRun, UpdateTask
from tidegate.schemas.message import TasksReady
from tidegate.schemas.state import RunState, TaskState

READY = [message(TasksReady(pool="default_pool", limit=100))]


def found(world: World, *, free: int = 100) -> State:
    return State(NOW, free, tuple(world.tasks.values()), {1: world.run}, {1: world.graph})


def test_a_scheduled_task_is_queued_with_the_intent_to_submit_it() -> None:
    world = World(graph("a"))

    effects = list(decide(READY, found(world)))

    stamp = submission_id(world.run, "a", 1)
    assert [e for e in effects if isinstance(e, InsertSubmission)] == [InsertSubmission(stamp, 1, 0, 1, "command")]
    assert [(e.state, e.try_number) for e in effects if isinstance(e, UpdateTask)] == [(TaskState.QUEUED, 1)]


def test_a_task_that_is_tried_again_gets_the_next_number() -> None:
    world = World(graph("a*1"))
    world.admit("a")
    world.finish(a=False)

    effects = list(decide(READY, found(world)))

    assert [e.try_number for e in effects if isinstance(e, InsertSubmission)] == [2]
    assert [e.event.try_number for e in effects if isinstance(e, TaskMoved)] == [2]


def test_no_more_than_the_free_slots_are_taken_in_order() -> None:
    world = World(graph("a", "b", "c"))

    effects = list(decide(READY, found(world, free=2)))

    assert [effect.task_index for effect in effects if isinstance(effect, InsertSubmission)] == [0, 1]


def test_a_task_that_another_daemon_admitted_is_left_alone() -> None:
    world = World(graph("a", "b"))
    world.admit("a")

    effects = list(decide(READY, found(world)))

    assert [effect.task_index for effect in effects if isinstance(effect, InsertSubmission)] == [1]


def test_a_run_that_is_over_gets_no_slots() -> None:
    world = World(graph("a"))
    world.run = msgspec.structs.replace(world.run, state=RunState.FAILED)

    effects = list(decide(READY, found(world)))

    assert effects == []


def test_admission_leaves_the_run_as_it_is_but_for_its_numbers() -> None:
    world = World(graph("a", "b"))

    effects = list(decide(READY, found(world)))

    assert [e for e in effects if isinstance(e, UpdateRun)] == [UpdateRun(1, RunState.RUNNING, 2, 4, 2, 0, None, None)]


@pytest.mark.parametrize(
    ("task", "backend"),
    [
        (CommandTask(task_id="t", argv=("true",)), "command"),
        (FunctionTask(task_id="t"), "spark-connect"),
        (SqlTask(task_id="t", sql="SELECT 1"), "spark-connect"),
        (SubmitTask(task_id="t", application="a.py"), "spark-submit"),
    ],
)
def test_each_kind_of_task_has_its_backend(task: TaskSpec, backend: str) -> None:
    effects = decide(READY, found(World(graph(task))))

    assert [effect.backend for effect in effects if isinstance(effect, InsertSubmission)] == [backend]


def test_no_two_attempts_have_one_stamp() -> None:
    run = World(graph("a")).run
    other = msgspec.structs.replace(run, id=2)

    stamps = {submission_id(run, "a", 1), submission_id(run, "a", 2), submission_id(run, "b", 1), submission_id(other, "a", 1)}

    assert len(stamps) == 4
