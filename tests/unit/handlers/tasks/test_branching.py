"""Branching tasks skip the branches that they do not choose; teardowns run after setups that succeeded."""

from collections.abc import Mapping, Sequence

import pytest

from tests.shapes import NOW, graph, task
from tests.unit.handlers.simulated_run import End, SimulatedRun
from tidegate.handlers.tasks.branching import choice_error
from tidegate.schemas.dag import TaskSpec
from tidegate.schemas.run import follow
from tidegate.schemas.state import RunState, TaskState
from tidegate.schemas.wire.event import TaskFinished

NONE, SCHEDULED, RUNNING = TaskState.NONE, TaskState.SCHEDULED, TaskState.RUNNING
S, F, K, UF = TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED, TaskState.UPSTREAM_FAILED


def ended(world: SimulatedRun, **ends: End) -> dict[str, TaskState]:
    """The states of all tasks after these ends, one by one."""
    for task_id, end in ends.items():
        world.admit(task_id)
        world.finish(**{task_id: end})
    return world.states()


@pytest.mark.parametrize(
    ("lines", "chosen", "states"),
    [
        pytest.param(("a", "b < a", "c < a"), ("b",), {"a": S, "b": SCHEDULED, "c": K}, id="one of two"),
        pytest.param(("a", "b < a", "c < a"), ("b", "c"), {"a": S, "b": SCHEDULED, "c": SCHEDULED}, id="both"),
        pytest.param(("a", "b < a", "c < a", "d < c"), ("b",), {"a": S, "b": SCHEDULED, "c": K, "d": K}, id="and what follows"),
        pytest.param(("a", "b < a", "c < a", "j < b c"), ("b",), {"a": S, "b": SCHEDULED, "c": K, "j": K}, id="a join of all"),
        pytest.param(
            ("a", "b < a", "c < a", "j:none_failed_min_one_success < b c"),
            ("b",),
            {"a": S, "b": SCHEDULED, "c": K, "j": NONE},
            id="a join of some",
        ),
        pytest.param(
            ("a", "b < a", "j < a b"), ("b",), {"a": S, "b": SCHEDULED, "j": NONE}, id="a chosen one leads to the other"
        ),
        pytest.param(
            ("a", "b < a", "c < b", "j < a c"), ("b",), {"a": S, "b": SCHEDULED, "c": NONE, "j": NONE}, id="and from further away"
        ),
        pytest.param(("a", "b < a", "j < a b"), ("j",), {"a": S, "b": K, "j": K}, id="the way round is not chosen"),
        pytest.param(
            ("a", "b < a", "c < a", "j < a c"), ("b",), {"a": S, "b": SCHEDULED, "c": K, "j": K}, id="below another unchosen one"
        ),
        pytest.param(
            ("a", "b < a", "c < a", "j:all_done < a c"),
            ("b",),
            {"a": S, "b": SCHEDULED, "c": K, "j": K},
            id="below another unchosen one, whatever its rule",
        ),
        pytest.param(
            ("a", "b < a", "c < a", "j:none_failed < a b c"),
            ("b",),
            {"a": S, "b": SCHEDULED, "c": K, "j": NONE},
            id="below a chosen one and an unchosen one, by its rule",
        ),
        pytest.param(
            ("a", "b < a", "c < a", "j < a b c"),
            ("b",),
            {"a": S, "b": SCHEDULED, "c": K, "j": K},
            id="below both, and its rule skips it",
        ),
        pytest.param(
            ("a", "b < a", "c < a", "d < c", "e:all_done < d"),
            ("b",),
            {"a": S, "b": SCHEDULED, "c": K, "d": K, "e": SCHEDULED},
            id="what comes later goes by its rule",
        ),
        pytest.param(("a", "b! < a", "c! < a"), ("c",), {"a": S, "b": K, "c": S}, id="empty branches"),
        pytest.param(
            ("a", "b < a", "c:all_done < b"), (), {"a": S, "b": K, "c": K}, id="the rest is skipped, whatever its rules"
        ),
        pytest.param(
            ("a", "b < a", "c:all_done < b", "d < b"),
            follow().task_ids,
            {"a": S, "b": K, "c": SCHEDULED, "d": K},
            id="none of them, and then by the rules",
        ),
        pytest.param(
            ("a", "b < a", "c:always < a b"),
            follow().task_ids,
            {"a": S, "b": K, "c": SCHEDULED},
            id="none of them, but one has its turn already",
        ),
        pytest.param(("a", "b < a", "x", "y < b x"), (), {"a": S, "b": K, "x": SCHEDULED, "y": K}, id="only what comes after it"),
        pytest.param(("a",), (), {"a": S}, id="nothing comes after it"),
        pytest.param(("a", "b:always < a"), (), {"a": S, "b": SCHEDULED}, id="what has its turn already keeps it"),
    ],
)
def test_a_choice_skips_the_other_branches(
    lines: Sequence[str], chosen: tuple[str, ...], states: Mapping[str, TaskState]
) -> None:
    assert ended(SimulatedRun(graph(*lines)), a=chosen) == states


def test_a_skipped_branch_names_the_branching_task() -> None:
    world = SimulatedRun(graph("a", "b < a", "c < a"))

    ended(world, a=("b",))

    assert [(e.task_id, e.reason) for e in world.published if e.state == "skipped"] == [("c", "a did not choose it")]


@pytest.mark.parametrize("chosen", [("c",), ("b", "nobody"), ("a",)], ids=["further down", "unknown", "itself"])
def test_an_invalid_choice_fails_the_task_without_a_retry(chosen: tuple[str, ...]) -> None:
    world = SimulatedRun(graph("a*3", "b < a", "c < b"))

    states = ended(world, a=chosen)

    assert states == {"a": F, "b": UF, "c": UF}
    assert f"it chose {chosen[-1]!r}, which is no task directly after it" in [event.reason for event in world.published]


def test_a_valid_choice_has_no_error() -> None:
    assert choice_error(graph("a", "b < a"), 0, ("b",)) is None


def test_a_failed_attempt_has_no_choice() -> None:
    world = SimulatedRun(graph("a*1", "b < a"))
    world.admit("a")
    failed = TaskFinished(submission_id=world.attempt("a"), outcome="failed", follow=("nobody",))

    world.finish_with(failed)

    assert world.states() == {"a": TaskState.UP_FOR_RETRY, "b": NONE}


def test_a_task_that_skips_itself_is_not_retried() -> None:
    assert ended(SimulatedRun(graph("a*3", "b < a", "c:none_failed < a")), a=K) == {"a": K, "b": K, "c": SCHEDULED}


SETUP, WORK = task("setup", is_setup=True), task("work < setup")
TEARDOWN = task("teardown < setup work", teardown_of=("setup",))
PLAIN = (SETUP, WORK, TEARDOWN)
TWO = (
    SETUP,
    task("other", is_setup=True),
    task("work < setup other"),
    task("down < setup other work", teardown_of=("setup", "other")),
)


@pytest.mark.parametrize(
    ("tasks", "ends", "state"),
    [
        pytest.param(PLAIN, {"setup": True}, NONE, id="U15 work is still to do"),
        pytest.param(PLAIN, {"setup": True, "work": True}, SCHEDULED, id="U15 after work that succeeded"),
        pytest.param(PLAIN, {"setup": True, "work": False}, SCHEDULED, id="U15 after work that failed"),
        pytest.param(PLAIN, {"setup": True, "work": K}, SCHEDULED, id="U15 after work that was skipped"),
        pytest.param(PLAIN, {"setup": False}, UF, id="U15 nothing was set up: a failure"),
        pytest.param(PLAIN, {"setup": K}, K, id="U15 nothing was set up: a skip"),
        pytest.param(PLAIN, {"setup": ()}, SCHEDULED, id="U15 the rest is skipped, but what was set up is torn down"),
        pytest.param(TWO, {"setup": True, "other": False}, SCHEDULED, id="U15 one of two was set up"),
        pytest.param(TWO, {"setup": K, "other": True}, SCHEDULED, id="U15 one of two was skipped"),
        pytest.param(TWO, {"setup": K, "other": False}, UF, id="U15 none of two, one of them failed"),
        pytest.param(TWO, {"setup": K, "other": K}, K, id="U15 both were skipped"),
        pytest.param(
            (SETUP, WORK, "a < work", "b < work", task("teardown < setup a b", teardown_of=("setup",))),
            {"setup": True, "work": True, "a": False},
            NONE,
            id="U15 waits for all, also after a failure",
        ),
        pytest.param(
            (SETUP, WORK, "a < work", task("teardown < setup a", teardown_of=("setup",))),
            {"setup": True, "work": False},
            SCHEDULED,
            id="U15 what never ran counts as done",
        ),
    ],
)
def test_a_teardown_runs_once_everything_upstream_has_ended(
    tasks: Sequence[TaskSpec | str], ends: Mapping[str, End], state: TaskState
) -> None:
    states = ended(SimulatedRun(graph(*tasks)), **ends)

    assert list(states.values())[-1] is state


@pytest.mark.parametrize(
    ("matters", "ends", "state"),
    [
        pytest.param(False, {"setup": True, "work": True, "teardown": False}, RunState.SUCCESS, id="U15 R22 it fails"),
        pytest.param(False, {"setup": True, "work": False, "teardown": True}, RunState.FAILED, id="U15 R22 work fails"),
        pytest.param(True, {"setup": True, "work": True, "teardown": False}, RunState.FAILED, id="U15 R22 it matters"),
        pytest.param(True, {"setup": True, "work": False, "teardown": True}, RunState.SUCCESS, id="U15 R22 it alone matters"),
    ],
)
def test_a_teardown_decides_about_the_run_only_if_asked_to(matters: bool, ends: Mapping[str, End], state: RunState) -> None:
    teardown = task("teardown < setup work", teardown_of=("setup",), on_failure_fail_run=matters)
    world = SimulatedRun(graph(SETUP, WORK, teardown))

    ended(world, **ends)

    assert world.run.state is state


def test_a_teardown_of_an_absent_setup_is_skipped() -> None:
    setup = task("setup", is_setup=True, end_date=NOW.replace(year=2020))

    world = SimulatedRun(graph(setup, task("teardown < setup", teardown_of=("setup",))), logical_date=NOW)

    assert world.states() == {"setup": TaskState.REMOVED, "teardown": K}
