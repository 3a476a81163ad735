"""`fail_fast` and `max_consecutive_failed_dag_runs`."""

from collections.abc import Mapping, Sequence

import pytest

from tests.shapes import NOW, A, dag_view, graph, pending, queued, run_view
from tests.unit.handlers.simulated_run import End, SimulatedRun
from tidegate.handlers.attempt_ends import FAIL_FAST
from tidegate.handlers.scheduling.next_runs import RunEnd, after_corrected_failure, end_of, schedule_after_ends
from tidegate.schemas.effect import Effect
from tidegate.schemas.effect.dag import ConsumeEvents, CountFailures, SetPaused
from tidegate.schemas.effect.run import Reconsider, UpdateRun
from tidegate.schemas.state import RunState, TaskState

S, F = RunEnd(RunState.SUCCESS), RunEnd(RunState.FAILED)
AGAIN = RunEnd(RunState.FAILED, ended_before=True)


@pytest.mark.parametrize(
    ("ends", "failure"),
    [
        pytest.param({"a": False}, "task a failed in try 1", id="a failure"),
        pytest.param({"a": True}, "", id="a success"),
        pytest.param({"a": TaskState.SKIPPED}, "", id="a skip"),
        pytest.param({"retried": False}, "", id="a failure that is tried again"),
        pytest.param(
            {"a": ("nobody",)},
            "task a failed in try 1: it chose 'nobody', which is no task directly after it",
            id="a choice that cannot be followed",
        ),
        pytest.param({"a": False, "b": False, "retried": True}, "", id="nothing is left to stop"),
    ],
)
def test_fail_fast_stops_a_run_at_its_first_failure(ends: Mapping[str, End], failure: str) -> None:
    world = SimulatedRun(graph("a", "b", "retried*1", fail_fast=True))
    world.admit("a", "b", "retried")

    world.finish(**ends)

    stops = [Reconsider(1, f"{failure}; {FAIL_FAST}")] if failure else []
    assert [effect for effect in world.others if isinstance(effect, Reconsider)] == stops


def test_without_fail_fast_a_run_keeps_running() -> None:
    world = SimulatedRun(graph("a", "b"))
    world.admit("a", "b")

    world.finish(a=False)

    assert (world.others, world.run.state) == ([], RunState.RUNNING)


def settled(ended: Sequence[RunEnd], *, limit: int = 3, failed: int = 0, **facts: object) -> list[Effect]:
    dag = graph("a", max_failed_runs=limit, limit=2)
    return list(schedule_after_ends(dag_view(dag, running=2, failed_runs=failed, **facts), ended, NOW))


@pytest.mark.parametrize(
    ("ended", "limit", "failed", "effects"),
    [
        pytest.param([F], 3, 0, [CountFailures("d", 1)], id="the first of three"),
        pytest.param([F], 3, 1, [CountFailures("d", 2)], id="the second of three"),
        pytest.param([F], 3, 2, [CountFailures("d", 3), SetPaused("d", is_paused=True)], id="the third of three"),
        pytest.param([F, F], 3, 1, [CountFailures("d", 3), SetPaused("d", is_paused=True)], id="two at once"),
        pytest.param([F], 3, 5, [CountFailures("d", 6), SetPaused("d", is_paused=True)], id="again, after it was unpaused"),
        pytest.param([AGAIN], 3, 2, [], id="a run that failed before and was cleared"),
        pytest.param([AGAIN], 3, 5, [], id="the same after it was unpaused"),
        pytest.param([AGAIN, F], 3, 2, [CountFailures("d", 3), SetPaused("d", is_paused=True)], id="the third beside it"),
        pytest.param([RunEnd(RunState.SUCCESS, ended_before=True)], 3, 2, [CountFailures("d", 0)], id="it succeeds now"),
        pytest.param([S], 3, 2, [CountFailures("d", 0)], id="a success begins anew"),
        pytest.param([S], 3, 5, [CountFailures("d", 0)], id="a success after it was unpaused"),
        pytest.param([S, F], 3, 2, [CountFailures("d", 1)], id="a success between"),
        pytest.param([F, S], 3, 2, [CountFailures("d", 0), SetPaused("d", is_paused=True)], id="the third, and then a success"),
        pytest.param([F], 1, 0, [CountFailures("d", 1), SetPaused("d", is_paused=True)], id="the first of one"),
        pytest.param([S], 3, 0, [], id="nothing to count"),
        pytest.param([F, F, F, F], 0, 0, [], id="without a limit"),
        pytest.param([], 3, 7, [], id="nothing ended"),
    ],
)
def test_too_many_failed_runs_in_a_row_pause_the_dag(
    ended: Sequence[RunEnd], limit: int, failed: int, effects: Sequence[Effect]
) -> None:
    assert settled(ended, limit=limit, failed=failed) == effects


def test_a_dag_that_is_paused_is_not_paused_again() -> None:
    assert settled([F], failed=2, is_paused=True) == [CountFailures("d", 3)]


@pytest.mark.parametrize(("state_seq", "ended_before"), [(2, False), (5, True)], ids=["the first time", "again"])
def test_a_run_that_was_cleared_has_ended_before(state_seq: int, ended_before: bool) -> None:
    assert end_of(run_view(state_seq=state_seq), RunState.FAILED) == RunEnd(RunState.FAILED, ended_before)


@pytest.mark.parametrize(("failed", "effects"), [(2, [CountFailures("d", 0)]), (0, [])], ids=["a failure before", "none"])
def test_a_failed_run_that_is_marked_as_succeeded_ends_the_row(failed: int, effects: Sequence[Effect]) -> None:
    assert list(after_corrected_failure(dag_view(graph("a"), failed_runs=failed))) == effects


@pytest.mark.parametrize(("failed", "starts"), [(1, True), (2, False)], ids=["goes on", "is paused"])
def test_a_dag_that_is_paused_by_a_failure_starts_nothing_in_its_place(failed: int, starts: bool) -> None:
    dag = graph("a", max_failed_runs=3, limit=2, schedule=A)
    view = dag_view(dag, running=2, failed_runs=failed, queued=1, queued_runs=queued(dag, 8), pending=(pending(1),))

    effects = list(schedule_after_ends(view, [F], NOW))

    assert [effect.id for effect in effects if isinstance(effect, UpdateRun)] == ([8] if starts else [])
    assert not any(isinstance(effect, ConsumeEvents) for effect in effects)


@pytest.mark.parametrize(("ended", "ids"), [([S], [7]), ([F], [7]), ([S, F], [7, 8]), ([], [])], ids=str)
def test_as_many_runs_start_as_have_ended(ended: Sequence[RunEnd], ids: Sequence[int]) -> None:
    dag = graph("a", limit=2)
    view = dag_view(dag, running=2, queued=3, queued_runs=queued(dag, 7, 8, 9))

    effects = schedule_after_ends(view, ended, NOW)

    assert [effect.id for effect in effects if isinstance(effect, UpdateRun)] == ids
