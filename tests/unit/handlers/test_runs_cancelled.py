"""Runs of a DAG are cancelled together."""

from typing import Any

from tests.shapes import NOW, dag_view, graph, message, queued, run_view
from tests.unit.handlers.well_formed import well_formed
from tidegate.handlers.runs_cancelled import State, decide
from tidegate.schemas.effect import Effect, RejectMessage
from tidegate.schemas.effect.dag import WakeDag
from tidegate.schemas.effect.run import RunMoved, UpdateRun
from tidegate.schemas.message import RunsCancelled
from tidegate.schemas.state import RunState

DAG = graph("a", limit=2)
RUNNING: dict[str, Any] = {"state": RunState.RUNNING, "state_seq": 2, "start_date": NOW}


def cancelled(state: State) -> list[Effect]:
    request = RunsCancelled(dag_id="d", run_ids=("r1", "r2", "r3"), reason="cancelled by anna")
    return well_formed(decide([message(request)], state))


def state_of(*runs: Any, **facts: Any) -> State:
    return State(NOW, **{"runs": {run.id: run for run in runs}, "graphs": {1: DAG}, **facts})


def ends(effects: list[Effect]) -> list[tuple[int, RunState]]:
    return [(effect.id, effect.state) for effect in effects if isinstance(effect, UpdateRun)]


def test_running_and_queued_runs_end_and_the_next_ones_start() -> None:
    waiting = queued(DAG, 2, 3, 4)
    dag = dag_view(DAG, running=1, queued=3, queued_runs=waiting)

    effects = cancelled(state_of(run_view(1, **RUNNING), *(it.run for it in waiting[:2]), dag=dag))

    assert ends(effects) == [(1, RunState.FAILED), (2, RunState.FAILED), (3, RunState.FAILED), (4, RunState.RUNNING)]
    assert {it.event.reason for it in effects if isinstance(it, RunMoved) and it.event.state == "failed"} == {"cancelled by anna"}
    assert [it for it in effects if isinstance(it, WakeDag)] == [WakeDag("d", NOW)]


def test_running_runs_alone_leave_nothing_for_the_clock() -> None:
    effects = cancelled(state_of(run_view(1, **RUNNING), dag=dag_view(DAG, running=1)))

    assert ends(effects) == [(1, RunState.FAILED)]
    assert not any(isinstance(effect, WakeDag) for effect in effects)


def test_runs_of_a_held_dag_end_and_the_clock_decides_later() -> None:
    effects = cancelled(state_of(run_view(1, **RUNNING)))

    assert (ends(effects), effects[-1]) == ([(1, RunState.FAILED)], WakeDag("d", NOW))


def test_runs_that_have_ended_are_left_out() -> None:
    (rejected,) = cancelled(state_of(run_view(1, state=RunState.SUCCESS), dag=dag_view(DAG)))

    assert rejected == RejectMessage("already_ended", "none of these runs of DAG 'd' is queued or running")


def test_an_unknown_dag_has_no_runs() -> None:
    (rejected,) = cancelled(State(NOW, dag_exists=False))

    assert rejected == RejectMessage("no_such_dag", "there is no DAG 'd'; `tidegate dags list` shows all")
