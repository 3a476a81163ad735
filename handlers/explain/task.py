"""Explains why a task instance does not run: its gates, closed by the functions that decide, and the change that opens them."""

from tidegate.handlers.explain.run_gates import run_gates
from tidegate.handlers.explain.task_facts import TaskFacts
from tidegate.handlers.explain.task_gates import admission_gates, readiness_gates, submission_gates
from tidegate.handlers.explain.task_remedy import task_changes
from tidegate.schemas.explain.gates import TaskExplanation


def explain_task(facts: TaskFacts) -> TaskExplanation:
    gates = (*run_gates(facts), *readiness_gates(facts), *admission_gates(facts), *submission_gates(facts))
    return TaskExplanation(
        dag_id=facts.graph.dag_id,
        run_id=facts.run.run.run_id,
        task=facts.label,
        state=facts.instance.state if facts.has_started else None,
        gates=gates,
        change=task_changes(facts, gates),
    )
