"""Why a DAG or a task does not run: gates, and the changes that open them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from tidegate.daemon.read_model import inputs
from tidegate.daemon.read_model.inputs import InputRow
from tidegate.daemon.read_model.lookup import find_dag, names
from tidegate.daemon.read_model.terms import own_terms
from tidegate.daemon.settings import Settings
from tidegate.handlers.explain.dag import explain_dag
from tidegate.handlers.explain.dag import load as load_dag
from tidegate.handlers.explain.gate import gate
from tidegate.handlers.explain.task import explain_task
from tidegate.handlers.explain.task_facts import index_of
from tidegate.handlers.explain.task_facts import load as load_task
from tidegate.schemas.conditions.condition import Condition
from tidegate.schemas.dag import DagSpec
from tidegate.schemas.error import NotFoundError
from tidegate.schemas.explain.gates import DagExplanation, Gate, GateState, TaskExplanation
from tidegate.schemas.explain.reasons import DagHeld, Reason
from tidegate.schemas.explain.remedy import CancelRuns, Change, Release
from tidegate.schemas.queries import dag_pages, facts, holds, versions
from tidegate.schemas.queries.dag_pages import DagRow, NoteRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.facts import DiscardRow
from tidegate.schemas.queries.run_pages import RunRow
from tidegate.schemas.state import TaskState
from tidegate.schemas.text import utc

LAST_NOTES, FORMER_RUNS = 5, 10


class DagWhyNot(msgspec.Struct, frozen=True):
    """`notes` are the last ticks and conditions that made no run, `discarded` the last discarded events by reason.

    `spec` is None for a held DAG, whose version may be unreadable.
    """

    explanation: DagExplanation
    spec: DagSpec | None
    inputs: Sequence[InputRow]
    notes: Sequence[NoteRow]
    discarded: Sequence[DiscardRow]


class GateInWords(msgspec.Struct, frozen=True):
    """A gate of a document. `waits_for` is None unless it is closed; `known` are its facts."""

    name: str
    state: GateState
    since: datetime | None
    waits_for: str | None
    known: str


class ChangeInWords(msgspec.Struct, frozen=True):
    """A change of a document."""

    says: str
    commands: Sequence[str]


class DagInWords(msgspec.Struct, frozen=True):
    """`dag_document` in words."""

    dag_id: str
    starts: bool
    gates: Sequence[GateInWords]
    change: Sequence[ChangeInWords]
    instead: Sequence[ChangeInWords]
    schedule: Condition | None
    timing: str
    inputs: Sequence[InputRow]
    notes: Sequence[NoteRow]
    discarded: Sequence[DiscardRow]


class TaskInWords(msgspec.Struct, frozen=True):
    """`task_document` in words."""

    dag_id: str
    run_id: str
    task: str
    state: TaskState | None
    gates: Sequence[GateInWords]
    change: Sequence[ChangeInWords]


async def read_dag_why_not(db: Db, dag_id: str) -> DagWhyNot:
    """Raises RequestError for a DAG that does not exist."""
    dag = await find_dag(db, dag_id)
    spec = None if dag.held_since else await versions.current_spec(db, dag_id)
    return DagWhyNot(
        explanation=explain_hold(dag, await holds.former_runs(db, dag_id, FORMER_RUNS))
        if spec is None
        else explain_dag(await load_dag(db, dag_id)),
        spec=spec,
        inputs=() if spec is None else await inputs.read_inputs(db, dag_id, spec),
        notes=await dag_pages.list_notes(db, dag_id, LAST_NOTES),
        discarded=await facts.discards(db, dag_id),
    )


def explain_hold(dag: DagRow, former_runs: tuple[str, ...] = ()) -> DagExplanation:
    """A held DAG has one gate: nothing else of it is decided. `former_runs` are unfinished runs of its earlier versions."""
    hold = gate("hold", DagHeld(dag.hold_reason or ""), {"file": dag.path}, since=dag.held_since)
    change = (Release(dag.dag_id, dag.path),)
    instead = (CancelRuns(dag.dag_id, former_runs),) if former_runs else ()
    return DagExplanation(dag_id=dag.dag_id, starts=False, gates=(hold,), change=change, instead=instead)


def dag_document(page: DagWhyNot) -> dict[str, Any]:
    """The page in JSON, with the text of reasons, facts and changes."""
    document = {
        "dag_id": page.explanation.dag_id,
        "starts": page.explanation.starts,
        "gates": gates_document(page.explanation.gates),
        "change": changes_document(page.explanation.change),
        "instead": changes_document(page.explanation.instead),
        "schedule": page.spec.schedule if page.spec else None,
        "timing": inputs.timing_text(page.spec.timing) if page.spec else "",
        "inputs": page.inputs,
        "notes": page.notes,
        "discarded": page.discarded,
    }
    return in_json(document)


async def read_task_why_not(db: Db, run: RunRow, label: str, settings: Settings) -> TaskExplanation:
    """The explanation of a task, or of an instance such as `load[3]`. `settings` apply where no daemon is live.

    Raises NotFoundError for a task that the run does not have.
    """
    version = (await facts.run_facts(db, run.dag_id, run.run_id)).view.version_id
    graph = (await versions.graphs(db, {version}))[version]
    index = index_of(graph, label)
    known = None if index is None else await load_task(db, run.dag_id, run.run_id, index, own_terms(settings))
    if known is None or not known.is_in_run:
        tasks = names(node.task.task_id for node in graph.nodes)
        raise NotFoundError(f"run {run.run_id!r} has no task {label!r}; its tasks are {tasks}")
    return explain_task(known)


def task_document(page: TaskExplanation) -> dict[str, Any]:
    """The page in JSON, with the text of reasons, facts and changes."""
    texts = {"gates": gates_document(page.gates), "change": changes_document(page.change)}
    return in_json({**msgspec.structs.asdict(page), **texts})


def in_json(document: dict[str, Any]) -> dict[str, Any]:
    """The document as a client of the API decodes it."""
    found: dict[str, Any] = msgspec.to_builtins(document)
    return found


def gates_document(gates: Sequence[Gate[Reason]]) -> list[dict[str, Any]]:
    """Gates in JSON, with the text of each reason and of the facts."""
    return [
        {**msgspec.structs.asdict(gate), "waits_for": gate.reason.text if gate.reason else None, "known": known_text(gate)}
        for gate in gates
    ]


def changes_document(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Changes in JSON, with their text and commands."""
    return [{**msgspec.to_builtins(change), "says": change.text, "commands": change.commands} for change in changes]


def waits_for(gates: Sequence[GateInWords]) -> str:
    """The waits of the closed gates among these, in words; empty without one."""
    return "; ".join(f"{gate.waits_for} ({gate.name})" for gate in gates if gate.waits_for is not None)


def known_text(gate: Gate[Reason]) -> str:
    return "; ".join(f"{name.replace('_', ' ')} {fact_text(value)}" for name, value in gate.facts.items())


def fact_text(value: Any) -> str:
    """A fact of a gate in words."""
    if isinstance(value, tuple | list):
        return ", ".join(map(fact_text, value))
    if isinstance(value, datetime):
        return utc(value)
    return "yes" if value is True else str(value)
