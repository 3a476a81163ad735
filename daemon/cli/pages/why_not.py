"""`dags why-not` and `tasks why-not`: gates, and the changes that open them, in text and JSON."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tidegate.daemon.cli.pages import output, tree
from tidegate.daemon.read_model.why_not import DagInWords, GateInWords, TaskInWords, waits_for
from tidegate.schemas.queries.dag_pages import NoteRow
from tidegate.schemas.text import age

GATE_TITLES = ("GATE", "STATE", "FOR", "WHAT IS KNOWN")
NOTE_TITLES = ("LAST", "TIMES", "WHAT")
DISCARD_TITLES = ("LAST", "EVENTS", "BECAUSE")


def print_dag(page: DagInWords, now: datetime) -> None:
    output.heading(page.dag_id)
    waits = "nothing: a run is about to start" if page.starts else waits_for(page.gates)
    output.facts((("waits for", waits), ("timing", page.timing)))
    print_gates(page.gates, now)
    if page.schedule is not None:
        tree.print_condition("inputs", page.schedule, page.inputs, now)
    print_notes(page.notes)
    if page.discarded:
        cells = ((row.last_at, row.events, row.reason) for row in page.discarded)
        output.section("events that were discarded", DISCARD_TITLES, cells, empty="")
    if not page.starts:
        print_changes("the smallest change that makes a run", page.change)
        if page.instead:
            print_changes("or instead", page.instead)


def print_notes(notes: Sequence[NoteRow]) -> None:
    """The last ticks and conditions that made no run, if there are any."""
    if notes:
        output.section("no run came of", NOTE_TITLES, ((note.last_at, note.times, note.reason) for note in notes), empty="")


def print_task(page: TaskInWords, now: datetime) -> None:
    output.heading(f"{page.dag_id} {page.run_id} {page.task}")
    closed = waits_for(page.gates)
    output.facts((("state", page.state or "its run has not started"), ("waits for", closed or _nothing(page))))
    print_gates(page.gates, now)
    if closed:
        print_changes("the smallest change that lets it run", page.change)


def _nothing(page: TaskInWords) -> str:
    match page.state:
        case "running":
            return "nothing: it is running"
        case "success":
            return "nothing: it has succeeded"
        case _:
            return "the next decision of a daemon"


def print_gates(gates: Sequence[GateInWords], now: datetime) -> None:
    output.section("gates", GATE_TITLES, (_cells(gate, now) for gate in gates), empty="none")


def print_changes(title: str, changes: Sequence[Mapping[str, Any]]) -> None:
    output.write()
    output.heading(title if changes else "no change lets it run any more")
    for change in changes:
        output.write(f"  {change['says']}")
        for command in change["commands"]:
            output.write(f"    {command}")


def _cells(gate: GateInWords, now: datetime) -> tuple[output.Cell, ...]:
    return gate.name, gate.state, age(gate.since, now) if gate.since else None, gate.known
