"""Explained gates and the changes that open them, in text and JSON."""

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from tidegate.daemon.cli.pages import output
from tidegate.schemas.explain import remedy
from tidegate.schemas.explain.gates import Gate
from tidegate.schemas.explain.remedy import Change
from tidegate.schemas.timetable.text import age, utc

TITLES = ("GATE", "STATE", "FOR", "WHAT IS KNOWN")


def gates_document(gates: Sequence[Gate]) -> list[dict[str, Any]]:
    """Gates in JSON, with the text of each reason."""
    return [{**msgspec.structs.asdict(gate), "waits_for": gate.reason.text if gate.reason else None} for gate in gates]


def changes_document(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Changes in JSON, with their text and commands."""
    return [{**msgspec.to_builtins(change), **msgspec.structs.asdict(remedy_text(change))} for change in changes]


def waits_for(closed: Sequence[Gate]) -> str:
    return "; ".join(f"{gate.reason.text} ({gate.name})" for gate in closed if gate.reason)


def print_gates(gates: Sequence[Gate], now: datetime) -> None:
    output.section("gates", TITLES, (_cells(gate, now) for gate in gates), empty="none")


def print_changes(title: str, changes: Sequence[Change]) -> None:
    output.write()
    output.heading(title if changes else "no change lets it run any more")
    for text in map(remedy_text, changes):
        output.write(f"  {text.says}")
        for command in text.commands:
            output.write(f"    {command}")


def _cells(gate: Gate, now: datetime) -> tuple[output.Cell, ...]:
    known = "; ".join(f"{name.replace('_', ' ')} {_text(value)}" for name, value in gate.facts.items())
    return gate.name, gate.state, age(gate.since, now) if gate.since else None, known


def _text(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(_text, value))
    if isinstance(value, datetime):
        return utc(value)
    return "yes" if value is True else str(value)


class RemedyText(msgspec.Struct, frozen=True):
    """A change in words, and the commands that make it."""

    says: str
    commands: tuple[str, ...] = ()


def remedy_text(change: remedy.Change) -> RemedyText:
    match change:
        case remedy.Unpause(dag_id):
            return RemedyText("unpause the DAG", (shlex.join(("tidegate", "dags", "unpause", dag_id)),))
        case remedy.RestoreFile(dag_id, path):
            return RemedyText(f"put {dag_id} into a DAG file again; it was in {path}")
        case remedy.Wait(until):
            return RemedyText("wait a moment" if until is None else f"wait until {utc(until)}")
        case remedy.StartDaemon() | remedy.BringBack() | remedy.Resume():
            return _about_servers(change)
        case remedy.EndUpstream() | remedy.Clear() | remedy.EndTasks():
            return _about_tasks(change)
        case remedy.Publish() | remedy.MendFile() | remedy.EndRun() | remedy.Trigger():
            return _about_starts(change)
        case remedy.RaiseRuns() | remedy.SetSlots() | remedy.SetParallelism():
            return _more_room(change)


def _more_room(change: remedy.RaiseRuns | remedy.SetSlots | remedy.SetParallelism) -> RemedyText:
    match change:
        case remedy.RaiseRuns(_, path, limit, runs):
            instead = f", or let {' or '.join(runs)} end" if runs else ""
            return RemedyText(f"raise max_active_runs to {limit} in {path}{instead}")
        case remedy.SetSlots(pool, slots, tasks):
            instead = f", or let {' or '.join(tasks)} end" if tasks else ""
            wanted = "1 slot" if slots == 1 else f"{slots} slots"
            commands = (shlex.join(("tidegate", "pools", "set", pool, str(slots))),)
            return RemedyText(f"give pool {pool!r} {wanted}{instead}", commands)
        case remedy.SetParallelism(limit):
            return RemedyText(f"start the daemons with TIDEGATE_PARALLELISM={limit}, or let a task end")


def _about_tasks(change: remedy.EndUpstream | remedy.Clear | remedy.EndTasks) -> RemedyText:
    match change:
        case remedy.EndUpstream(dag_id, run_id, tasks):
            commands = tuple(shlex.join(("tidegate", "tasks", "why-not", dag_id, run_id, task)) for task in tasks)
            return RemedyText(f"let {', '.join(tasks)} of {run_id} end; what each waits for:", commands)
        case remedy.Clear(dag_id, run_id, tasks):
            commands = (shlex.join(("tidegate", "tasks", "clear", dag_id, run_id, *tasks, "--yes")),)
            return RemedyText(f"clear {', '.join(tasks)} of {run_id}", commands)
        case remedy.EndTasks(limit, count, tasks):
            names = ", ".join(map(" ".join, tasks))
            whole = [task for task in tasks if not task[-1].endswith("]")]
            commands = tuple(shlex.join(("tidegate", "tasks", "mark", *task, "success")) for task in whole)
            says = f"let {count} of {names} end, or end {'it' if count == 1 else 'them'}"
            return RemedyText(f"{says}; {limit} is fixed for existing runs", commands)


def _about_starts(change: remedy.Publish | remedy.MendFile | remedy.EndRun | remedy.Trigger) -> RemedyText:
    match change:
        case remedy.Publish(inputs, uris):
            commands = tuple(shlex.join(("tidegate", "datasets", "publish", uri)) for uri in uris)
            return RemedyText(f"publish an event of {' and of '.join(inputs)}", commands)
        case remedy.MendFile(path):
            return RemedyText(f"correct the condition in {path}")
        case remedy.EndRun(_, runs):
            return RemedyText(f"let {' or '.join(runs)} end")
        case remedy.Trigger(dag_id):
            return RemedyText("trigger a run", (shlex.join(("tidegate", "runs", "trigger", dag_id)),))


def _about_servers(change: remedy.StartDaemon | remedy.BringBack | remedy.Resume) -> RemedyText:
    match change:
        case remedy.StartDaemon():
            return RemedyText("start a daemon", ("tidegate daemon",))
        case remedy.BringBack(server):
            return RemedyText(f"restore {server}, or the way to it")
        case remedy.Resume(partitions):
            commands = tuple(
                shlex.join(("tidegate", "topics", "resume", partition, "--at", "earliest")) for partition in partitions
            )
            return RemedyText("say from which offset on these partitions are read", commands)
