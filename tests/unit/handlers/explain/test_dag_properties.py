"""For any DAG: a run starts if and only if the explanation has no reason against it."""

from random import Random

import msgspec
from hypothesis import given, settings

from tests.shapes import NOW
from tests.unit.handlers.explain.test_dag import dag_facts
from tests.unit.handlers.scheduling.test_next_runs_properties import CHANCES, dag_of
from tidegate.handlers.explain.dag import explain_dag, runs_needed, would_run
from tidegate.handlers.scheduling.next_runs import schedule_next_runs
from tidegate.schemas.effect.run import InsertRun


@settings(max_examples=500, deadline=None)
@given(chance=CHANCES)
def test_a_run_starts_exactly_where_the_explanation_has_no_change(chance: Random) -> None:
    dag = dag_of(chance)

    page = explain_dag(dag_facts(dag))

    assert any(isinstance(effect, InsertRun) for effect in schedule_next_runs(dag, NOW)) is not bool(page.change)


@settings(max_examples=200, deadline=None)
@given(chance=CHANCES)
def test_the_least_limit_that_admits_a_run_is_needed(chance: Random) -> None:
    dag = msgspec.structs.replace(dag_of(chance), is_paused=False, is_stale=False)
    facts = dag_facts(dag)

    needed = runs_needed(facts)

    limits = range(dag.running + 1, dag.running + dag.queued + 2)
    graphs = [(limit, msgspec.structs.replace(dag.graph, max_active_runs=limit)) for limit in limits]
    enough = [limit for limit, of in graphs if would_run(msgspec.structs.replace(facts.dag, graph=of), NOW)]
    assert needed == min(enough, default=dag.running + 1)
