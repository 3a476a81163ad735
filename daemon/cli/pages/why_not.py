"""`dags why-not` and `tasks why-not`: gates, and the changes that open them, in text and JSON."""

from collections.abc import Sequence
from datetime import datetime

from tidegate.daemon.cli.pages import output, tree
from tidegate.daemon.read_model import inputs
from tidegate.daemon.read_model.why_not import DagWhyNot, fact_text, waits_for
from tidegate.schemas.explain.gates import Gate, TaskExplanation
from tidegate.schemas.explain.reasons import Reason
from tidegate.schemas.explain.remedy import Change
from tidegate.schemas.timetable.text import age

GATE_TITLES = ("GATE", "STATE", "FOR", "WHAT IS KNOWN")
NOTE_TITLES = ("LAST", "TIMES", "WHAT")
DISCARD_TITLES = ("LAST", "EVENTS", "BECAUSE")


def print_dag(page: DagWhyNot, now: datetime) -> None:
    explanation = page.explanation
    output.heading(explanation.dag_id)
    waits = "nothing: a run is about to start" if explanation.starts else waits_for(explanation.closed)
    timing = inputs.timing_text(page.spec.timing) if page.spec else None
    output.facts((("waits for", waits), ("timing", timing)))
    print_gates(explanation.gates, now)
    if page.spec is not None and page.spec.schedule is not None:
        tree.print_condition("inputs", page.spec.schedule, page.inputs, now)
    if page.notes:
        output.section("no run came of", NOTE_TITLES, ((n.last_at, n.times, n.reason) for n in page.notes), empty="")
    if page.discarded:
        cells = ((row.last_at, row.events, row.reason) for row in page.discarded)
        output.section("events that were discarded", DISCARD_TITLES, cells, empty="")
    if not explanation.starts:
        print_changes("the smallest change that makes a run", explanation.change)
        if explanation.instead:
            print_changes("or instead", explanation.instead)


def print_task(page: TaskExplanation, now: datetime) -> None:
    output.heading(f"{page.dag_id} {page.run_id} {page.task}")
    waits = waits_for(page.closed) or _nothing(page)
    output.facts((("state", page.state or "its run has not started"), ("waits for", waits)))
    print_gates(page.gates, now)
    if page.closed:
        print_changes("the smallest change that lets it run", page.change)


def _nothing(page: TaskExplanation) -> str:
    match page.state:
        case "running":
            return "nothing: it is running"
        case "success":
            return "nothing: it has succeeded"
        case _:
            return "the next decision of a daemon"


def print_gates(gates: Sequence[Gate[Reason]], now: datetime) -> None:
    output.section("gates", GATE_TITLES, (_cells(gate, now) for gate in gates), empty="none")


def print_changes(title: str, changes: Sequence[Change]) -> None:
    output.write()
    output.heading(title if changes else "no change lets it run any more")
    for change in changes:
        output.write(f"  {change.text}")
        for command in change.commands:
            output.write(f"    {command}")


def _cells(gate: Gate[Reason], now: datetime) -> tuple[output.Cell, ...]:
    known = "; ".join(f"{name.replace('_', ' ')} {fact_text(value)}" for name, value in gate.facts.items())
    return gate.name, gate.state, age(gate.since, now) if gate.since else None, known
