"""Mapped tasks: one instance for each element of the list that another task returned."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.shapes import NOW, graph, task
from tests.unit.handlers.simulated_run import End, SimulatedRun
from tidegate.handlers.attempt_ends import FAIL_FAST
from tidegate.schemas.dag import TaskSpec
from tidegate.schemas.effect.run import Reconsider
from tidegate.schemas.graph import MAX_ELEMENTS, element_index, element_of, position_of
from tidegate.schemas.state import RunState, TaskState

NONE, SCHEDULED, UP_FOR_RETRY = TaskState.NONE, TaskState.SCHEDULED, TaskState.UP_FOR_RETRY
S, F, K, UF = TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED

OVER_A = ("a", task("m < a", over="a"), "z < m")


def lived(*tasks: TaskSpec | str, returns: Any = None, ends: Mapping[str, End] | None = None, **facts: Any) -> SimulatedRun:
    """A run in which `a` returns this, after these ends, one by one."""
    world = SimulatedRun(graph(*tasks, **facts))
    world.returns["a"] = returns
    for task_id, end in (ends or {"a": True}).items():
        world.admit(task_id)
        world.finish(**{task_id: end})
        world.check()
    return world


def reason(world: SimulatedRun, task_id: str) -> str:
    return [event.reason for event in world.published if event.label == task_id][-1]


def test_a_mapped_task_gets_an_instance_per_element_and_waits_for_them() -> None:
    world = lived(*OVER_A, returns=["x", "y"])

    assert world.states() == {"a": S, "m": NONE, "z": NONE, "m[0]": SCHEDULED, "m[1]": SCHEDULED}
    assert (world.run.unfinished, world.tasks[1].elements) == (2, 2)
    assert [event.label for event in world.published][-2:] == ["m[0]", "m[1]"]


@pytest.mark.parametrize(
    ("returns", "state", "said"),
    [
        pytest.param([], K, "a returned nothing to map over", id="nothing"),
        pytest.param(None, F, "a returned no list to map over", id="no result"),
        pytest.param({"a": 1}, F, "a returned no list to map over", id="no list"),
        pytest.param("abc", F, "a returned no list to map over", id="a text"),
        pytest.param([0] * (MAX_ELEMENTS + 1), F, f"a returned {MAX_ELEMENTS + 1} elements, more than {MAX_ELEMENTS}", id="many"),
    ],
)
def test_a_task_without_a_list_to_map_over_ends(returns: Any, state: TaskState, said: str) -> None:
    world = lived(*OVER_A, returns=returns)

    assert world.states() == {"a": S, "m": state, "z": K if state is K else UF}
    assert reason(world, "m") == said


@pytest.mark.parametrize("rule", ["all_done", "none_failed", "always"])
def test_over_a_skipped_task_nothing_is_mapped(rule: str) -> None:
    """Its trigger rule lets it run; it has no list, and nothing failed."""
    world = lived("a", "b", task(f"m:{rule} < a b", over="a"), ends={"b": True, "a": TaskState.SKIPPED})

    assert (world.states()["m"], world.run.state) == (K, RunState.SUCCESS)
    assert reason(world, "m") == "a was skipped: there is nothing to map over"


def test_over_a_task_outside_its_dates_nothing_is_mapped() -> None:
    world = SimulatedRun(graph(task("a", start_date=NOW + timedelta(days=1)), task("m < a", over="a")), logical_date=NOW)

    assert world.states() == {"a": TaskState.REMOVED, "m": K}
    assert reason(world, "m") == "a is no part of this run: there is nothing to map over"


def test_the_longest_allowed_list_is_mapped() -> None:
    assert len(lived(*OVER_A, returns=[0] * MAX_ELEMENTS).tasks) == 3 + MAX_ELEMENTS


@pytest.mark.parametrize(
    ("ends", "state", "said"),
    [
        pytest.param((True, True, True), S, "", id="all succeed"),
        pytest.param((True, K, True), S, "", id="one is skipped"),
        pytest.param((K, K, K), K, "", id="all are skipped"),
        pytest.param((True, False, K), F, "1 of 3 instances failed", id="one fails"),
        pytest.param((False, False, True), F, "2 of 3 instances failed", id="two fail"),
    ],
)
def test_a_mapped_task_ends_once_all_its_instances_have(ends: Sequence[End], state: TaskState, said: str) -> None:
    elements = {f"m[{element}]": end for element, end in enumerate(ends)}

    world = lived(*OVER_A, returns=[1, 2, 3], ends={"a": True, **elements})

    assert (world.states()["m"], reason(world, "m")) == (state, said)
    assert world.states()["z"] is {S: SCHEDULED, K: K, F: UF}[state]


def test_a_mapped_task_waits_for_its_last_instance() -> None:
    world = lived(*OVER_A, returns=[1, 2, 3], ends={"a": True, "m[0]": False, "m[2]": True})

    assert (world.states()["m"], world.states()["z"], world.run.state) == (NONE, NONE, RunState.RUNNING)


def test_instances_that_end_in_one_batch_are_all_counted() -> None:
    world = lived(*OVER_A, returns=[1, 2])
    world.admit("m[0]", "m[1]")

    world.finish(**{"m[0]": True, "m[1]": True})

    assert world.states() == {"a": S, "m": S, "z": SCHEDULED, "m[0]": S, "m[1]": S}


def test_each_instance_is_retried_alone() -> None:
    world = lived("a", task("m*1 < a", over="a"), returns=[1, 2], ends={"a": True, "m[0]": False, "m[1]": False})

    assert (world.states()["m[0]"], world.states()["m[1]"], world.states()["m"]) == (UP_FOR_RETRY, UP_FOR_RETRY, NONE)
    assert world.tasks[world.index["m[0]"]].next_try_at == world.tasks[world.index["m[1]"]].next_try_at
    world.retry("m[1]")
    world.admit("m[1]")
    world.finish(**{"m[1]": False})
    assert (world.states()["m[1]"], world.states()["m"]) == (F, NONE)


def test_instances_have_attempts_of_their_own() -> None:
    world = lived(*OVER_A, returns=[1, 2])

    world.admit("m[0]", "m[1]")

    assert len({world.attempt("m[0]"), world.attempt("m[1]"), world.attempt("a")}) == 3


def test_an_instance_of_a_mapped_task_chooses_no_branch() -> None:
    world = lived(*OVER_A, returns=[1], ends={"a": True, "m[0]": ()})

    assert world.states() == {"a": S, "m": S, "z": SCHEDULED, "m[0]": S}


def test_a_task_is_mapped_over_what_the_instances_of_another_return() -> None:
    world = lived(
        *("a", task("m < a", over="a"), task("n < m", over="m")),
        returns=[1, 2],
        ends={"a": True, "m[0]": True, "m[1]": True, "n[0]": True, "n[1]": True},
    )

    assert world.states() == dict.fromkeys(("a", "m", "n", "m[0]", "m[1]", "n[0]", "n[1]"), S)
    assert world.run.state is RunState.SUCCESS


@pytest.mark.parametrize(
    ("rule", "ends"),
    [
        pytest.param("always", {"b": True, "a": True}, id="always"),
        pytest.param("one_success", {"b": True, "a": True}, id="one_success"),
        pytest.param("one_failed", {"b": False, "a": True}, id="one_failed"),
        pytest.param("one_done", {"a": True}, id="one_done"),
    ],
)
def test_a_task_that_is_ready_early_waits_for_its_list(rule: str, ends: Mapping[str, End]) -> None:
    world = lived("a", "b", task(f"m:{rule} < a b", over="a"), returns=[1, 2], ends=ends)

    assert {task_id: state for task_id, state in world.states().items() if task_id[0] == "m"} == {
        "m": NONE,
        "m[0]": SCHEDULED,
        "m[1]": SCHEDULED,
    }


def test_an_upstream_end_is_not_counted_among_the_instances_of_a_mapped_task() -> None:
    world = lived("a", "b", task("m:one_success < a b", over="a"), returns=[1, 2], ends={"a": True, "m[0]": True, "b": False})
    early = world.states()["m"]
    world.admit("m[1]")
    world.finish(**{"m[1]": True})

    assert (early, world.states()["m"], world.run.state) == (NONE, S, RunState.SUCCESS)


def test_a_task_that_has_its_instances_is_not_skipped_by_a_choice() -> None:
    world = lived("a", "b", task("m:one_success < a b", over="a"), returns=[1], ends={"a": True, "b": ()})

    assert (world.states()["m"], world.states()["m[0]"]) == (NONE, SCHEDULED)


def test_a_task_whose_list_is_never_returned_fails() -> None:
    world = lived("b", "a < b", task("m:all_done < a", over="a"), returns=[1], ends={"b": False})

    assert (world.states()["a"], world.states()["m"]) == (UF, F)


def test_a_list_of_a_task_that_did_not_succeed_is_not_mapped_over() -> None:
    world = lived("a", "b < a", task("m:all_done < a", over="a"), returns=[1, 2], ends={"a": ("nobody",)})

    assert (world.states()["a"], world.states()["m"], reason(world, "m")) == (F, F, "a returned no list to map over")


def test_a_mapped_task_is_expanded_when_the_previous_run_permits_it() -> None:
    world = lived("a", task("m < a", over="a", depends_on_past=True), returns=[1, 2])
    before = world.states()

    world.reconsider({"m": S})

    assert before == {"a": S, "m": NONE}
    assert world.states() == {"a": S, "m": NONE, "m[0]": SCHEDULED, "m[1]": SCHEDULED}
    world.check()


def test_a_run_with_active_instances_is_not_deadlocked() -> None:
    world = lived(*OVER_A, returns=[1])

    world.reconsider()

    assert world.run.state is RunState.RUNNING


def test_a_failed_run_ends_its_instances_too() -> None:
    world = lived(*OVER_A, returns=[1, 2])
    world.admit("m[0]")

    world.reconsider(stop="enough")

    assert world.states() == {"a": S, "m": K, "z": K, "m[0]": F, "m[1]": K}
    assert (world.run.unfinished, world.run.failed_leaves, world.run.active_tasks) == (0, 0, 0)


def test_a_failed_instance_triggers_fail_fast() -> None:
    world = lived(*OVER_A, returns=[1, 2], fail_fast=True, ends={"a": True, "m[0]": False})

    assert [effect for effect in world.others if isinstance(effect, Reconsider)] == [
        Reconsider(1, f"task m[0] failed in try 1; {FAIL_FAST}")
    ]


@pytest.mark.parametrize(("position", "element"), [(0, 0), (0, MAX_ELEMENTS - 1), (7, 3), (99_999, MAX_ELEMENTS - 1)])
def test_the_index_of_an_instance_has_its_task_and_element(position: int, element: int) -> None:
    index = element_index(position, element)

    assert (position_of(index), element_of(index)) == (position, element)
    assert (position_of(position), element_of(position)) == (position, None)


def test_indices_of_instances_fit_their_column() -> None:
    assert element_index(99_999, MAX_ELEMENTS - 1) < 2**31
