"""The gates of a task instance, and what lets it run, for people and for programs."""

import shlex
from datetime import datetime
from typing import Any

import msgspec

from tidegate.daemon.cli import output
from tidegate.daemon.cli.moment import age, utc
from tidegate.daemon.cli.progress_page import text_of
from tidegate.schemas import chain as shown
from tidegate.schemas.chain import Chain, Gate

TITLES = ("GATE", "STATE", "FOR", "WHAT IS KNOWN")


def document(page: Chain) -> dict[str, Any]:
    """As JSON has it: what is closed and what helps also in words."""
    gates = [{**msgspec.structs.asdict(gate), "waits_for": obstacle_text(gate.block)} for gate in page.gates]
    helps = [{**msgspec.to_builtins(change), **msgspec.structs.asdict(advice(change))} for change in page.change]
    return {**msgspec.structs.asdict(page), "gates": gates, "change": helps}


def print_chain(page: Chain, now: datetime) -> None:
    output.heading(f"{page.dag_id} {page.run_id} {page.task}")
    closed = [f"{obstacle_text(gate.block)} ({gate.name})" for gate in page.closed]
    output.facts((("state", page.state or "its run has not started"), ("waits for", "; ".join(closed) or _nothing(page))))
    output.section("gates", TITLES, (_cells(gate, now) for gate in page.gates), empty="none")
    if page.closed:
        output.write()
        output.heading("the smallest change that lets it run" if page.change else "nothing lets it run any more")
        for change in map(advice, page.change):
            output.write(f"  {change.says}")
            for command in change.commands:
                output.write(f"    {command}")


def _nothing(page: Chain) -> str:
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


def obstacle_text(block: shown.Obstacle | None) -> str | None:
    """What a closed gate waits for, after the words `waits for`."""
    match block:
        case None:
            return None
        case shown.RunEnded() | shown.TaskEnded() | shown.RuledOut():
            return _text_of_end(block)
        case shown.Outranked(pool, others):
            return f"pool {pool!r}: what is free goes to {_counted(others, 'task', 'tasks')} before it"
        case shown.NotSubmitted(backend, state):
            return f"backend {backend!r}: the attempt is {'an intent' if state == 'intent' else state}"
        case shown.ServerAway(server, error):
            return f"{server}, which no daemon can reach: {error}"
        case _:
            return text_of(block)


def _text_of_end(block: shown.RunEnded | shown.TaskEnded | shown.RuledOut) -> str:
    match block:
        case shown.RunEnded(state, reason):
            return f"another run of it: its run has ended as {state}" + (f", {reason}" if reason else "")
        case shown.TaskEnded(state, tries, reason):
            return f"another run of it: it {state} after {_counted(tries, 'try', 'tries')}" + (f", {reason}" if reason else "")
        case shown.RuledOut(_, "removed"):
            return "a run whose logical date is within its dates: it is no part of this one"
        case shown.RuledOut(rule, state):
            return f"another run of it: it was {'skipped' if state == 'skipped' else 'given up'} by {rule}"


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


class Advice(msgspec.Struct, frozen=True):
    """What to do, in words, and the commands that do it."""

    says: str
    commands: tuple[str, ...] = ()


def advice(change: shown.Change) -> Advice:
    match change:
        case shown.Unpause(dag_id):
            return Advice("unpause the DAG", (shlex.join(("tidegate", "dags", "unpause", dag_id)),))
        case shown.RestoreFile(dag_id, path):
            return Advice(f"put {dag_id} into a DAG file again; it was in {path}")
        case shown.Wait(until):
            return Advice("wait a moment" if until is None else f"wait until {utc(until)}")
        case shown.StartDaemon():
            return Advice("start a daemon", ("tidegate daemon",))
        case shown.BringBack(server):
            return Advice(f"bring back {server}")
        case shown.EndUpstream() | shown.Clear() | shown.EndTasks():
            return _about_tasks(change)
        case shown.RaiseRuns() | shown.SetSlots() | shown.SetParallelism():
            return _more_room(change)


def _more_room(change: shown.RaiseRuns | shown.SetSlots | shown.SetParallelism) -> Advice:
    match change:
        case shown.RaiseRuns(_, path, limit, runs):
            instead = f", or let {' or '.join(runs)} end" if runs else ""
            return Advice(f"raise max_active_runs to {limit} in {path}{instead}")
        case shown.SetSlots(pool, slots, tasks):
            instead = f", or let {' or '.join(tasks)} end" if tasks else ""
            return Advice(
                f"give pool {pool!r} {_counted(slots, 'slot', 'slots')}{instead}",
                (shlex.join(("tidegate", "pools", "set", pool, str(slots))),),
            )
        case shown.SetParallelism(limit):
            return Advice(f"start the daemons with TIDEGATE_PARALLELISM={limit}, or let a task end")


def _about_tasks(change: shown.EndUpstream | shown.Clear | shown.EndTasks) -> Advice:
    match change:
        case shown.EndUpstream(dag_id, run_id, tasks):
            commands = tuple(shlex.join(("tidegate", "tasks", "why-not", dag_id, run_id, task)) for task in tasks)
            return Advice(f"let {', '.join(tasks)} of {run_id} end; what each waits for:", commands)
        case shown.Clear(dag_id, run_id, tasks):
            commands = (shlex.join(("tidegate", "tasks", "clear", dag_id, run_id, *tasks, "--yes")),)
            return Advice(f"let {', '.join(tasks)} of {run_id} run again", commands)
        case shown.EndTasks(limit, count, tasks):
            names = ", ".join(map(" ".join, tasks))
            whole = [task for task in tasks if not task[-1].endswith("]")]
            commands = tuple(shlex.join(("tidegate", "tasks", "mark", *task, "success")) for task in whole)
            says = f"let {count} of {names} end, or end {'it' if count == 1 else 'them'}"
            return Advice(f"{says}; {limit} of runs that there are stays as it is", commands)
