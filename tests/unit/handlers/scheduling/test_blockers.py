"""Why a DAG may have a new dataset run, or may not."""

import pytest

from tests.shapes import NOW, A, B, dag_view, graph, pending
from tidegate.handlers.scheduling.blockers import AtRunLimit, Gate, NotScheduled, Paused, Stale, gate
from tidegate.handlers.scheduling.condition import Open, Waiting
from tidegate.schemas.conditions.condition import AllOf, AnyOf
from tidegate.schemas.view import DagView

ON_A = graph("t", schedule=A, limit=2)
ON_BOTH = graph("t", schedule=AllOf((A, B)))
ON_EITHER = graph("t", schedule=AnyOf((A, B)))
ONE = (pending(1),)


@pytest.mark.parametrize(
    ("dag", "answer"),
    [
        pytest.param(dag_view(ON_A, pending=ONE), Open(ONE), id="open"),
        pytest.param(dag_view(graph("t"), pending=ONE), NotScheduled(), id="without a schedule"),
        pytest.param(dag_view(ON_A, pending=ONE, is_paused=True), Paused(), id="paused"),
        pytest.param(dag_view(ON_A, pending=ONE, is_stale=True), Stale(), id="in no file"),
        pytest.param(dag_view(ON_A, pending=ONE, running=1), Open(ONE), id="below its limit"),
        pytest.param(dag_view(ON_A, pending=ONE, running=2), AtRunLimit(2, 2), id="at its limit"),
        pytest.param(dag_view(ON_A, pending=ONE, running=3), AtRunLimit(3, 2), id="above its limit"),
        pytest.param(dag_view(ON_A, pending=ONE, running=1, queued=1), Open(ONE), id="those that wait take no room"),
        pytest.param(dag_view(ON_A), Waiting((A.uri,)), id="nothing pending"),
        pytest.param(dag_view(ON_BOTH, pending=ONE), Waiting((B.uri,)), id="one of two pending"),
        pytest.param(dag_view(ON_BOTH), Waiting((A.uri, B.uri)), id="both missing, in order"),
        pytest.param(dag_view(ON_BOTH, pending=(*ONE, pending(2, B))), Open((*ONE, pending(2, B))), id="both pending"),
        pytest.param(dag_view(ON_EITHER, pending=ONE), Open(ONE), id="either pending"),
        pytest.param(
            dag_view(ON_BOTH, pending=(*ONE, pending(2))), Waiting((B.uri,)), id="two events of one are not one of both"
        ),
    ],
)
def test_the_gate_names_what_is_closed(dag: DagView, answer: Gate) -> None:
    assert gate(dag, NOW) == answer
