"""For any DAG: a run starts if and only if the explanation has no reason against it."""

from random import Random

from hypothesis import given, settings

from tests.shapes import NOW
from tests.unit.handlers.explain.test_dag import dag_facts
from tests.unit.handlers.scheduling.test_next_runs_properties import CHANCES, dag_of
from tidegate.handlers.explain.dag import explain_dag
from tidegate.handlers.scheduling.next_runs import schedule_next_runs
from tidegate.schemas.effect.run import InsertRun


@settings(max_examples=500, deadline=None)
@given(chance=CHANCES)
def test_a_run_starts_exactly_where_the_explanation_has_no_change(chance: Random) -> None:
    dag = dag_of(chance)

    page = explain_dag(dag_facts(dag))

    assert any(isinstance(effect, InsertRun) for effect in schedule_next_runs(dag, NOW)) is not bool(page.change)
