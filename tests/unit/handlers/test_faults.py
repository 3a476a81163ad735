"""A batch about several DAGs is decided to its end, and one error names each DAG at fault."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from tests.shapes import NOW, dag_view, graph
from tests.unit.handlers.simulated_run import SimulatedRun
from tidegate.handlers import run_reconsidered, run_timed_out
from tidegate.handlers.scheduling import next_runs
from tidegate.handlers.scheduling.next_runs import (
    RunEnd,
    schedule_after_ends,
    schedule_each,
    schedule_each_after_ends,
    schedule_next_runs,
)
from tidegate.schemas.effect import Effect
from tidegate.schemas.error import DagFaultError
from tidegate.schemas.state import RunState
from tidegate.schemas.timetable.spec import Cron
from tidegate.schemas.view import DagView, RunView

UNREADABLE = 9
DAGS = tuple(dag_view(graph("a", dag_id=dag_id)) for dag_id in "def")


def reconsidered(world: SimulatedRun, *others: RunView) -> Iterator[Effect]:
    stops = dict.fromkeys((run.id for run in (world.run, *others)), "stopped")
    runs = {run.id: run for run in (world.run, *others)}
    return run_reconsidered.decide([], msgspec.structs.replace(world.whole(), dags=DAGS, runs=runs, stops=stops))


def timed_out(world: SimulatedRun, *others: RunView) -> Iterator[Effect]:
    found = world.whole()
    return run_timed_out.decide([], run_timed_out.State(NOW, DAGS, (world.run, *others), found.graphs, found.tasks))


@pytest.mark.parametrize("decide", [reconsidered, timed_out])
def test_faults_of_runs_and_of_their_dags_are_found_together(
    decide: Callable[..., Iterator[Effect]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next runs of two DAGs cannot be decided about, nor the run of a third."""
    decided: list[str] = []

    def fails(dag: DagView, _: Any) -> Iterator[Effect]:
        decided.append(dag.graph.dag_id)
        raise KeyError("surprise")

    monkeypatch.setattr(next_runs, "_schedule", fails)
    world = SimulatedRun(graph("a"))
    second = msgspec.structs.replace(world.run, id=2, dag_id="e", state=RunState.RUNNING)
    third = msgspec.structs.replace(second, id=3, dag_id="f", version_id=UNREADABLE)

    with pytest.raises(DagFaultError) as raised:
        list(decide(world, second, third))

    assert set(raised.value.reasons) == {"d", "e", "f"}
    assert decided == ["d", "e"]


SUCCESS = RunEnd(RunState.SUCCESS)


@pytest.mark.parametrize(
    "decide",
    [
        pytest.param(lambda dag: schedule_next_runs(dag, NOW), id="one"),
        pytest.param(lambda dag: schedule_each([dag], NOW), id="each"),
        pytest.param(lambda dag: schedule_after_ends(dag, [SUCCESS], NOW), id="one, after the end of a run"),
        pytest.param(lambda dag: schedule_each_after_ends([dag], {"d": [SUCCESS]}, NOW), id="each, after the end of a run"),
    ],
)
def test_a_fault_names_the_dag_whose_next_runs_were_decided_about(decide: Callable[[DagView], Iterator[Effect]]) -> None:
    dag = dag_view(graph("a", timetable=Cron(("never",))), running=1)

    with pytest.raises(DagFaultError, match="DAG 'd': a decision failed"):
        list(decide(dag))
