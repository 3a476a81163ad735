"""Explains why a DAG has no new run: its gates, closed by the functions that decide, and the change that opens them."""

from tidegate.handlers.explain.dag_facts import DagFacts
from tidegate.handlers.explain.dag_gates import condition_gates, dag_gates, queue_gate, service_gates, timetable_gates, would_run
from tidegate.handlers.explain.dag_remedy import dag_changes
from tidegate.schemas.explain.gates import DagExplanation, Gate, closed

Gates = tuple[Gate, ...]


def explain_dag(facts: DagFacts) -> DagExplanation:
    by_datasets, by_time = tuple(condition_gates(facts)), tuple(timetable_gates(facts))
    own, services = tuple(dag_gates(facts)), tuple(service_gates(facts))
    needed, instead = _needed(facts, by_datasets, by_time)
    queue = queue_gate(facts, others_open=not closed((*needed, *own)))
    shared = (*own, queue, *services)
    return DagExplanation(
        dag_id=facts.dag.graph.dag_id,
        starts=bool(facts.daemons) and would_run(facts.dag, facts.now),
        gates=(*by_datasets, *by_time, *shared),
        change=dag_changes(facts, (*needed, *shared)),
        instead=dag_changes(facts, (*instead, *shared)) if instead else (),
    )


def _needed(
    facts: DagFacts, by_datasets: tuple[Gate, ...], by_time: tuple[Gate, ...]
) -> tuple[tuple[Gate, ...], tuple[Gate, ...]]:
    """The gates that have to open, and the alternative to them where datasets and time each make runs."""
    if not by_datasets or not by_time or facts.dag.graph.requires_both:
        return (*by_datasets, *by_time), ()
    if not closed(by_datasets) or not closed(by_time):
        return (), ()
    return by_datasets, by_time
