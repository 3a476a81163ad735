"""Why a DAG has no new run: all gates in their order, each asked of what decides about it, and what would open them."""

from tidegate.handlers.explain.dag_facts import FoundDag
from tidegate.handlers.explain.dag_gates import gates_around, gates_of_dag, gates_of_events, gates_of_time, queue_gate, would_run
from tidegate.handlers.explain.dag_remedy import dag_changes
from tidegate.schemas.explain.gates import DagExplanation, Gate, closed


def explain_dag(found: FoundDag) -> DagExplanation:
    """For people to look at: nothing is decided by it."""
    events, time = tuple(gates_of_events(found)), tuple(gates_of_time(found))
    own, around = tuple(gates_of_dag(found)), tuple(gates_around(found))
    needed, instead = _needed(found, events, time)
    queue = queue_gate(found, others_open=not closed((*needed, *own)))
    rest = (*own, queue, *around)
    changes = dag_changes(found, (*needed, *rest))
    return DagExplanation(
        dag_id=found.dag.graph.dag_id,
        starts=bool(found.daemons) and would_run(found.dag, found.now),
        gates=(*events, *time, *rest),
        change=changes,
        instead=dag_changes(found, (*instead, *rest)) if instead else (),
    )


def _needed(found: FoundDag, events: tuple[Gate, ...], time: tuple[Gate, ...]) -> tuple[tuple[Gate, ...], tuple[Gate, ...]]:
    """The gates that have to open, and those that would do as well where events and time each make runs."""
    if not events or not time or found.dag.graph.requires_both:
        return (*events, *time), ()
    if not closed(events) or not closed(time):
        return (), ()
    return events, time
