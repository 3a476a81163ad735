"""The delays of retries."""

from datetime import timedelta
from math import ceil
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shapes import NOW, graph, message, task
from tests.unit.handlers.simulated_run import SimulatedRun
from tidegate.handlers.retry_due import decide
from tidegate.handlers.tasks.advance import advance
from tidegate.handlers.tasks.attempt_end import AttemptEnd
from tidegate.handlers.tasks.retry_policy import retry_delay
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.run import UpdateRun
from tidegate.schemas.effect.task import TaskMoved, UpdateTask
from tidegate.schemas.message import RetryDue
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.view import Instance

DELAYS = st.floats(0.001, 1e6)
FACTORS = st.floats(1.0001, 100)


def seconds(try_number: int, name: str = "d/r/t", **facts: Any) -> float:
    return retry_delay(task("t", **facts), name, try_number).total_seconds()


@given(delay_s=DELAYS, factor=FACTORS, try_number=st.integers(1, 8), name=st.text(max_size=9))
def test_the_delay_grows_by_the_factor_and_is_spread_up_to_twofold(
    delay_s: float, factor: float, try_number: int, name: str
) -> None:
    least = ceil(delay_s * factor ** (try_number - 1))
    cap = 4e13

    found = seconds(try_number, name, retry_delay_s=delay_s, retry_factor=factor, max_retry_delay_s=cap)

    assert min(least, cap) <= found <= cap
    assert found < 2 * least


@given(delay_s=DELAYS, factor=FACTORS, cap=DELAYS, try_number=st.integers(1, 1001))
def test_the_delay_never_exceeds_its_cap(delay_s: float, factor: float, cap: float, try_number: int) -> None:
    found = seconds(try_number, retry_delay_s=delay_s, retry_factor=factor, max_retry_delay_s=cap)

    assert 0 < found <= timedelta(seconds=cap).total_seconds()


@pytest.mark.parametrize("try_number", [20, 1000, 10**6, 10**12, 10**30])
def test_a_huge_try_number_has_the_capped_delay(try_number: int) -> None:
    assert seconds(try_number, retry_delay_s=1.0, retry_factor=2.0, max_retry_delay_s=3600.0) == 3600.0


@pytest.mark.parametrize("try_number", [1, 2, 1000, 10**30])
@pytest.mark.parametrize("delay_s", [0.0, 0.25, 90.0, 200_000.0])
def test_without_a_factor_the_delay_is_fixed(try_number: int, delay_s: float) -> None:
    assert seconds(try_number, retry_delay_s=delay_s) == delay_s


@pytest.mark.parametrize("try_number", [1, 50, 10**6])
def test_no_delay_stays_none_with_any_factor(try_number: int) -> None:
    assert seconds(try_number, retry_delay_s=0.0, retry_factor=3.0) == 0


def test_the_delay_of_a_try_is_deterministic() -> None:
    assert [seconds(n, retry_delay_s=60.0, retry_factor=2.0) for n in range(1, 6)] == [115.0, 225.0, 302.0, 684.0, 1851.0]


def test_tasks_that_fail_together_are_retried_at_different_times() -> None:
    names = [f"d/r{run}/t{number}" for run in range(20) for number in range(5)]

    found = {seconds(3, name, retry_delay_s=1000.0, retry_factor=2.0) for name in names}

    assert len(found) > 90


def test_the_delay_depends_on_task_run_and_try() -> None:
    world = SimulatedRun(graph(task("a*3", retry_delay_s=1000.0, retry_factor=2.0)))
    found = []
    for _ in range(2):
        world.admit("a")
        world.finish(a=False)
        found.append(world.tasks[0].next_try_at)
        world.retry("a")

    spec = world.graph.nodes[0].task
    assert found == [NOW + retry_delay(spec, "d/r1/a", 1), NOW + retry_delay(spec, "d/r1/a", 2)]


def test_a_task_has_at_least_the_tries_of_the_version_that_it_runs() -> None:
    """Its run may have changed from a version in which it had fewer."""
    ended = AttemptEnd(0, 1, TaskState.FAILED)

    step = advance(graph("a*2", "b < a"), {0: Instance(0, TaskState.RUNNING, 1, max_tries=1)}, [ended], NOW)

    assert [move.state for move in step.moves] == [TaskState.UP_FOR_RETRY]


def test_without_a_delay_a_task_is_scheduled_at_once() -> None:
    world = SimulatedRun(graph(task("a*1", retry_delay_s=0.0)))
    world.admit("a")

    world.finish(a=False)

    assert (world.states(), world.tasks[0].next_try_at) == ({"a": TaskState.SCHEDULED}, None)
    assert [event.state for event in world.published] == ["scheduled", "queued", "up_for_retry", "scheduled"]


def failed(*lines: str) -> SimulatedRun:
    """A run whose tasks have failed and are up for retry in a minute."""
    world = SimulatedRun(graph(*lines))
    ids = list(world.index)
    world.admit(*ids)
    world.finish(**dict.fromkeys(ids, False))
    return world


def due(world: SimulatedRun, *, seconds: float) -> list[Effect]:
    """The effects of `retry_due` for all tasks a number of seconds later."""
    state = world.due(now=NOW + timedelta(seconds=seconds))
    order = Random(1).sample(sorted(world.tasks), len(world.tasks))
    return list(decide([message(RetryDue(dag_run_id=1, task_index=index)) for index in order], state))


def test_a_task_whose_delay_has_passed_is_scheduled() -> None:
    world = failed("a*1", "b*1")
    before = world.run.task_seq

    effects = due(world, seconds=60)

    written = [e for e in effects if isinstance(e, UpdateTask)]
    assert [(i.state, i.try_number, i.next_try_at) for e in written if (i := e.instance)] == 2 * [(TaskState.SCHEDULED, 1, None)]
    assert [e.dates.scheduled_at for e in written] == 2 * [NOW + timedelta(seconds=60)]
    assert [(e.event.seq, e.event.state) for e in effects if isinstance(e, TaskMoved)] == [
        (before + 1, "scheduled"),
        (before + 2, "scheduled"),
    ]
    assert [(e.state, e.task_seq, e.unfinished) for e in effects if isinstance(e, UpdateRun)] == [
        (RunState.RUNNING, before + 2, 2)
    ]


def test_a_task_whose_delay_has_not_passed_keeps_waiting() -> None:
    assert due(failed("a*1"), seconds=59.9) == []


def test_a_task_that_does_not_wait_for_a_retry_is_not_changed() -> None:
    world = failed("a*1")
    world.retry("a")

    assert due(world, seconds=60) == []


def test_a_task_of_an_ended_run_is_not_retried() -> None:
    world = failed("a*1")
    world.run = msgspec.structs.replace(world.run, state=RunState.FAILED)

    assert due(world, seconds=60) == []
