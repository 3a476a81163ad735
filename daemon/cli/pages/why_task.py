"""The gates of a task instance, and what lets it run, for people and for programs."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from tidegate.daemon.cli.pages import output
from tidegate.daemon.cli.pages.advice import advice
from tidegate.schemas.explain.gates import Gate, TaskExplanation
from tidegate.schemas.explain.remedy import Change
from tidegate.schemas.timetable.text import age, utc

TITLES = ("GATE", "STATE", "FOR", "WHAT IS KNOWN")


def document(page: TaskExplanation) -> dict[str, Any]:
    """As JSON has it: what is closed and what helps also in words."""
    return {**msgspec.structs.asdict(page), "gates": gates_document(page.gates), "change": changes_document(page.change)}


def gates_document(gates: Sequence[Gate]) -> list[dict[str, Any]]:
    return [{**msgspec.structs.asdict(gate), "waits_for": gate.reason.text if gate.reason else None} for gate in gates]


def changes_document(changes: Sequence[Change]) -> list[dict[str, Any]]:
    return [{**msgspec.to_builtins(change), **msgspec.structs.asdict(advice(change))} for change in changes]


def print_chain(page: TaskExplanation, now: datetime) -> None:
    output.heading(f"{page.dag_id} {page.run_id} {page.task}")
    waits = waits_for(page.closed) or _nothing(page)
    output.facts((("state", page.state or "its run has not started"), ("waits for", waits)))
    print_gates(page.gates, now)
    if page.closed:
        print_changes("the smallest change that lets it run", page.change)


def waits_for(closed: Sequence[Gate]) -> str:
    return "; ".join(f"{gate.reason.text} ({gate.name})" for gate in closed if gate.reason)


def print_gates(gates: Sequence[Gate], now: datetime) -> None:
    output.section("gates", TITLES, (_cells(gate, now) for gate in gates), empty="none")


def print_changes(title: str, changes: Sequence[Change]) -> None:
    output.write()
    output.heading(title if changes else "nothing lets it run any more")
    for change in map(advice, changes):
        output.write(f"  {change.says}")
        for command in change.commands:
            output.write(f"    {command}")


def _nothing(page: TaskExplanation) -> str:
    match page.state:
        case "running":
            return "nothing: it runs"
        case "success":
            return "nothing: it has run"
        case _:
            return "its turn, which is about to come"


def _cells(gate: Gate, now: datetime) -> tuple[output.Cell, ...]:
    known = "; ".join(f"{name.replace('_', ' ')} {_text(value)}" for name, value in gate.facts.items())
    return gate.name, gate.state, age(gate.since, now) if gate.since else None, known


def _text(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(_text, value))
    if isinstance(value, datetime):
        return utc(value)
    return "yes" if value is True else str(value)
