"""Why a task instance does not run: all gates in their order, each asked of what decides about it, and what would open them."""

from tidegate.handlers.explain.run_gates import run_gates
from tidegate.handlers.explain.task_facts import Found
from tidegate.handlers.explain.task_gates import admission_gates, submission_gates, turn_gates
from tidegate.handlers.explain.task_remedy import changes
from tidegate.schemas.explain.gates import TaskExplanation


def explain_task(found: Found) -> TaskExplanation:
    """For people to look at: nothing is decided by it."""
    gates = (*run_gates(found), *turn_gates(found), *admission_gates(found), *submission_gates(found))
    return TaskExplanation(
        dag_id=found.graph.dag_id,
        run_id=found.run.run.run_id,
        task=found.label,
        state=found.instance.state if found.has_started else None,
        gates=gates,
        change=changes(found, gates),
    )
