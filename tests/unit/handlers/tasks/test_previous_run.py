"""Tasks with `depends_on_past` or `wait_for_downstream`."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from tests.shapes import NOW, graph, task
from tests.unit.handlers.simulated_run import FIRST, End, SimulatedRun
from tidegate.handlers.tasks.previous_run import blocking_tasks
from tidegate.schemas.effect.run import Reconsider, ReconsiderAfter
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import PreviousRun

NONE, SCHEDULED, RUNNING, REMOVED = TaskState.NONE, TaskState.SCHEDULED, TaskState.RUNNING, TaskState.REMOVED
S, F, K, UF = TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED

PATIENT = {"depends_on_past": True}
MORE_PATIENT = {"depends_on_past": True, "wait_for_downstream": True}
STRICT = {"depends_on_past": True, "ignore_first_depends_on_past": False}


@pytest.mark.parametrize(
    ("facts", "past", "allowed"),
    [
        pytest.param(PATIENT, FIRST, True, id="the first run"),
        pytest.param(STRICT, FIRST, True, id="the first run, whatever it is said to ignore"),
        pytest.param(PATIENT, None, False, id="the run before has not started"),
        pytest.param(PATIENT, {"t": S}, True, id="it succeeded"),
        pytest.param(PATIENT, {"t": K}, True, id="it was skipped"),
        pytest.param(PATIENT, {"t": F}, False, id="it failed"),
        pytest.param(PATIENT, {"t": UF}, False, id="it could not run"),
        pytest.param(PATIENT, {"t": RUNNING}, False, id="it works"),
        pytest.param(PATIENT, {"t": TaskState.UP_FOR_RETRY}, False, id="it is tried again"),
        pytest.param(PATIENT, {"t": NONE}, False, id="its turn has not come"),
        pytest.param(PATIENT, {"u": F}, True, id="U19 the run before did not have it"),
        pytest.param(PATIENT, {"t": REMOVED}, True, id="U19 it was no part of the run before"),
        pytest.param(STRICT, {"u": F}, False, id="U19 the run before did not have it, and that counts"),
        pytest.param(STRICT, {"t": REMOVED}, False, id="U19 it was no part of the run before, and that counts"),
        pytest.param(PATIENT, {"t": S, "b": F, "c": RUNNING}, True, id="what comes after it does not matter"),
        pytest.param(MORE_PATIENT, {"t": S, "b": S, "c": S}, True, id="all directly after it succeeded"),
        pytest.param(MORE_PATIENT, {"t": S, "b": S, "c": K}, True, id="one directly after it was skipped"),
        pytest.param(MORE_PATIENT, {"t": S, "b": S, "c": RUNNING}, False, id="one directly after it works"),
        pytest.param(MORE_PATIENT, {"t": S, "b": S, "c": F}, False, id="one directly after it failed"),
        pytest.param(MORE_PATIENT, {"t": S, "b": S, "c": UF}, False, id="one directly after it could not run"),
        pytest.param(MORE_PATIENT, {"t": S, "b": S}, True, id="U19 one directly after it is new"),
        pytest.param(MORE_PATIENT, {"t": S, "b": S, "c": REMOVED}, True, id="one directly after it was no part of the run"),
        pytest.param(MORE_PATIENT, {"t": S, "b": S, "c": S, "d": F}, True, id="what comes later does not matter"),
        pytest.param(MORE_PATIENT, {"t": F, "b": S, "c": S}, False, id="itself failed"),
    ],
)
def test_the_previous_run_permits_a_task_or_blocks_it(facts: Mapping[str, bool], past: Any, allowed: bool) -> None:
    dag = graph(task("t", **facts), "b < t", "c < t", "d < b")

    assert bool(blocking_tasks(None if past is FIRST else PreviousRun(past), dag, 0)) is not allowed


def waiting(*lines: str, **facts: Any) -> SimulatedRun:
    """A run with a task `t` that waits for the previous run."""
    return SimulatedRun(graph(*(line if line[0] != "t" else task(line, **(facts or PATIENT)) for line in lines)))


def ended(world: SimulatedRun, **ends: End) -> SimulatedRun:
    for task_id, end in ends.items():
        world.admit(task_id)
        world.finish(**{task_id: end})
    return world


def test_a_task_that_waits_for_the_run_before_does_not_start_with_its_run() -> None:
    world = waiting("t", "a")

    assert world.states() == {"t": NONE, "a": SCHEDULED}
    assert Reconsider(1) in world.others


@pytest.mark.parametrize(
    ("ends", "held", "released"),
    [
        pytest.param({"a": True, "b": True}, NONE, SCHEDULED, id="its turn comes"),
        pytest.param({"a": K}, NONE, K, id="U04 a skip waits too"),
        pytest.param({"a": False}, UF, UF, id="U04 a failure does not wait"),
        pytest.param({"a": True}, NONE, NONE, id="its turn has not come either way"),
    ],
)
def test_a_task_waits_for_the_run_before_and_for_its_upstream(
    ends: Mapping[str, End], held: TaskState, released: TaskState
) -> None:
    world = ended(waiting("a", "b", "t < a b"), **ends)

    before = world.states()["t"]
    world.reconsider({"t": S})

    assert (before, world.states()["t"]) == (held, released)


@pytest.mark.parametrize(
    ("ends", "state"), [({"a": True}, SCHEDULED), ({"a": K}, K), ({"a": False}, UF)], ids=["U04 S", "U04 K", "U04 F"]
)
def test_a_task_that_is_permitted_early_waits_for_its_upstream_only(ends: Mapping[str, End], state: TaskState) -> None:
    world = waiting("a", "t < a")
    world.reconsider({"t": S})

    ended(world, **ends)

    assert world.states()["t"] is state


def test_a_task_that_is_not_permitted_keeps_waiting() -> None:
    world = waiting("t")

    world.reconsider({"t": RUNNING})

    assert (world.states(), world.run.state) == ({"t": NONE}, RunState.RUNNING)


def test_an_empty_task_that_is_permitted_ends_at_once_and_so_does_its_run() -> None:
    world = waiting("t!", "u! < t")

    world.reconsider({"t": S})

    assert world.states() == {"t": S, "u": S}
    assert [event.state for event in world.journal] == ["queued", "running", "success"]


def after(world: SimulatedRun) -> int:
    """The number of effects that reconsider later runs."""
    return sum(isinstance(effect, ReconsiderAfter) for effect in world.others)


def test_each_step_of_a_sequential_dags_run_reconsiders_later_runs() -> None:
    world = waiting("t", "a*1")
    started = after(world)
    world.reconsider()
    allowed = after(world)
    ended(world, a=False)
    retried = after(world)
    ended(world, t=True)

    assert (started, allowed, retried, after(world)) == (1, 1, 1, 2)


def test_a_failed_run_reconsiders_later_runs() -> None:
    """Skipped tasks permit the next run."""
    world = waiting("t")
    started = after(world)

    world.reconsider(stop="enough")

    assert (started, after(world)) == (1, 2)


def test_an_empty_task_that_ends_when_permitted_reconsiders_later_runs() -> None:
    world = waiting("t!", "a")
    started = after(world)

    world.reconsider({"t": S})

    assert (started, after(world)) == (1, 2)


def test_a_run_that_ends_at_its_start_reconsiders_later_runs() -> None:
    world = SimulatedRun(graph(task("t", start_date=NOW, **PATIENT)), logical_date=NOW - timedelta(days=1))

    assert (world.run.state, after(world)) == (RunState.SUCCESS, 1)
    assert not any(isinstance(effect, Reconsider) for effect in world.others)


def test_a_dag_that_is_not_sequential_reconsiders_no_run() -> None:
    world = ended(SimulatedRun(graph("a!", "b", "c")), b=True)

    world.reconsider(stop="enough")

    assert world.others == [effect for effect in world.others if not isinstance(effect, Reconsider | ReconsiderAfter)]
