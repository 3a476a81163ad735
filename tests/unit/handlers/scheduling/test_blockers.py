"""Whether a DAG may have a dataset run, and the reason if not."""

import pytest

from tests.shapes import NOW, A, B, dag_view, graph, pending
from tidegate.handlers.scheduling.blockers import next_dataset_run
from tidegate.handlers.scheduling.condition import Satisfied
from tidegate.schemas.conditions.condition import AllOf, AnyOf
from tidegate.schemas.explain.reasons import DagPaused, DagStale, InputsMissing, MaxActiveRuns, NoSchedule, Reason
from tidegate.schemas.view import DagView

ON_A = graph("t", schedule=A, limit=2)
ON_BOTH = graph("t", schedule=AllOf((A, B)))
ON_EITHER = graph("t", schedule=AnyOf((A, B)))
ONE = (pending(1),)


@pytest.mark.parametrize(
    ("dag", "answer"),
    [
        pytest.param(dag_view(ON_A, pending=ONE), Satisfied(ONE), id="open"),
        pytest.param(dag_view(graph("t"), pending=ONE), NoSchedule(), id="without a schedule"),
        pytest.param(dag_view(ON_A, pending=ONE, is_paused=True), DagPaused(), id="paused"),
        pytest.param(dag_view(ON_A, pending=ONE, is_stale=True), DagStale(), id="in no file"),
        pytest.param(dag_view(ON_A, pending=ONE, running=1), Satisfied(ONE), id="below its limit"),
        pytest.param(dag_view(ON_A, pending=ONE, running=2), MaxActiveRuns(2), id="at its limit"),
        pytest.param(dag_view(ON_A, pending=ONE, running=3), MaxActiveRuns(2), id="above its limit"),
        pytest.param(dag_view(ON_A, pending=ONE, running=1, queued=1), Satisfied(ONE), id="queued runs do not count"),
        pytest.param(dag_view(ON_A), InputsMissing((A.uri,)), id="nothing pending"),
        pytest.param(dag_view(ON_BOTH, pending=ONE), InputsMissing((B.uri,)), id="one of two pending"),
        pytest.param(dag_view(ON_BOTH), InputsMissing((A.uri, B.uri)), id="both missing, in order"),
        pytest.param(dag_view(ON_BOTH, pending=(*ONE, pending(2, B))), Satisfied((*ONE, pending(2, B))), id="both pending"),
        pytest.param(dag_view(ON_EITHER, pending=ONE), Satisfied(ONE), id="either pending"),
        pytest.param(
            dag_view(ON_BOTH, pending=(*ONE, pending(2))), InputsMissing((B.uri,)), id="two events of one are not one of both"
        ),
    ],
)
def test_a_dag_has_a_dataset_run_or_a_reason(dag: DagView, answer: Satisfied | Reason) -> None:
    assert next_dataset_run(dag, NOW) == answer
