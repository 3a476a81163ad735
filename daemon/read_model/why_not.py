"""Why a DAG or a task does not run: gates, and the changes that open them."""

from collections.abc import Mapping, Sequence
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


class GateInWords(msgspec.Struct, frozen=True, kw_only=True):
    """A gate of a document. `waits_for` is None unless it is closed; `known` are its facts in words."""

    name: str
    state: GateState
    reason: Mapping[str, Any] | None
    since: datetime | None
    facts: Mapping[str, Any]
    waits_for: str | None
    known: str


class DagInWords(msgspec.Struct, frozen=True, kw_only=True):
    """Why a DAG has no new run, with the text of reasons, facts and changes.

    A change has the fields of its kind, its text `says`, and its `commands`.
    """

    dag_id: str
    starts: bool
    gates: Sequence[GateInWords]
    change: Sequence[Mapping[str, Any]]
    instead: Sequence[Mapping[str, Any]]
    schedule: Condition | None
    timing: str
    inputs: Sequence[InputRow]
    notes: Sequence[NoteRow]
    discarded: Sequence[DiscardRow]


class TaskInWords(msgspec.Struct, frozen=True, kw_only=True):
    """Why a task does not run, with the text of reasons, facts and changes. `change` as in `DagInWords`."""

    dag_id: str
    run_id: str
    task: str
    state: TaskState | None
    gates: Sequence[GateInWords]
    change: Sequence[Mapping[str, Any]]


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


def dag_in_words(page: DagWhyNot) -> DagInWords:
    found = page.explanation
    return DagInWords(
        dag_id=found.dag_id,
        starts=found.starts,
        gates=[_gate(gate) for gate in found.gates],
        change=[_change(change) for change in found.change],
        instead=[_change(change) for change in found.instead],
        schedule=page.spec.schedule if page.spec else None,
        timing=inputs.timing_text(page.spec.timing) if page.spec else "",
        inputs=page.inputs,
        notes=page.notes,
        discarded=page.discarded,
    )


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


def task_in_words(page: TaskExplanation) -> TaskInWords:
    gates, change = [_gate(gate) for gate in page.gates], [_change(change) for change in page.change]
    return TaskInWords(dag_id=page.dag_id, run_id=page.run_id, task=page.task, state=page.state, gates=gates, change=change)


def _gate(gate: Gate[Reason]) -> GateInWords:
    return GateInWords(
        name=gate.name,
        state=gate.state,
        reason=msgspec.to_builtins(gate.reason),
        since=gate.since,
        facts=msgspec.to_builtins(gate.facts),
        waits_for=gate.reason.text if gate.reason else None,
        known="; ".join(f"{name.replace('_', ' ')} {fact_text(value)}" for name, value in gate.facts.items()),
    )


def _change(change: Change) -> Mapping[str, Any]:
    return {**msgspec.to_builtins(change), "says": change.text, "commands": change.commands}


def waits_for(gates: Sequence[GateInWords]) -> str:
    """The waits of the closed gates among these, in words; empty without one."""
    return "; ".join(f"{gate.waits_for} ({gate.name})" for gate in gates if gate.waits_for is not None)


def fact_text(value: Any) -> str:
    """A fact of a gate in words."""
    if isinstance(value, tuple | list):
        return ", ".join(map(fact_text, value))
    if isinstance(value, datetime):
        return utc(value)
    return "yes" if value is True else str(value)
