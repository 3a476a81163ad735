"""What opens closed gates, in words and as commands."""

import shlex

import msgspec

from tidegate.schemas.explain import remedy
from tidegate.schemas.timetable.text import utc


class Advice(msgspec.Struct, frozen=True):
    """What to do, in words, and the commands that do it."""

    says: str
    commands: tuple[str, ...] = ()


def advice(change: remedy.Change) -> Advice:
    match change:
        case remedy.Unpause(dag_id):
            return Advice("unpause the DAG", (shlex.join(("tidegate", "dags", "unpause", dag_id)),))
        case remedy.RestoreFile(dag_id, path):
            return Advice(f"put {dag_id} into a DAG file again; it was in {path}")
        case remedy.Wait(until):
            return Advice("wait a moment" if until is None else f"wait until {utc(until)}")
        case remedy.StartDaemon() | remedy.BringBack() | remedy.Resume():
            return _about_servers(change)
        case remedy.EndUpstream() | remedy.Clear() | remedy.EndTasks():
            return _about_tasks(change)
        case remedy.Publish() | remedy.MendFile() | remedy.EndRun() | remedy.Trigger():
            return _about_starts(change)
        case remedy.RaiseRuns() | remedy.SetSlots() | remedy.SetParallelism():
            return _more_room(change)


def _more_room(change: remedy.RaiseRuns | remedy.SetSlots | remedy.SetParallelism) -> Advice:
    match change:
        case remedy.RaiseRuns(_, path, limit, runs):
            instead = f", or let {' or '.join(runs)} end" if runs else ""
            return Advice(f"raise max_active_runs to {limit} in {path}{instead}")
        case remedy.SetSlots(pool, slots, tasks):
            instead = f", or let {' or '.join(tasks)} end" if tasks else ""
            wanted = "1 slot" if slots == 1 else f"{slots} slots"
            commands = (shlex.join(("tidegate", "pools", "set", pool, str(slots))),)
            return Advice(f"give pool {pool!r} {wanted}{instead}", commands)
        case remedy.SetParallelism(limit):
            return Advice(f"start the daemons with TIDEGATE_PARALLELISM={limit}, or let a task end")


def _about_tasks(change: remedy.EndUpstream | remedy.Clear | remedy.EndTasks) -> Advice:
    match change:
        case remedy.EndUpstream(dag_id, run_id, tasks):
            commands = tuple(shlex.join(("tidegate", "tasks", "why-not", dag_id, run_id, task)) for task in tasks)
            return Advice(f"let {', '.join(tasks)} of {run_id} end; what each waits for:", commands)
        case remedy.Clear(dag_id, run_id, tasks):
            commands = (shlex.join(("tidegate", "tasks", "clear", dag_id, run_id, *tasks, "--yes")),)
            return Advice(f"let {', '.join(tasks)} of {run_id} run again", commands)
        case remedy.EndTasks(limit, count, tasks):
            names = ", ".join(map(" ".join, tasks))
            whole = [task for task in tasks if not task[-1].endswith("]")]
            commands = tuple(shlex.join(("tidegate", "tasks", "mark", *task, "success")) for task in whole)
            says = f"let {count} of {names} end, or end {'it' if count == 1 else 'them'}"
            return Advice(f"{says}; {limit} of runs that there are stays as it is", commands)


def _about_starts(change: remedy.Publish | remedy.MendFile | remedy.EndRun | remedy.Trigger) -> Advice:
    match change:
        case remedy.Publish(inputs, uris):
            commands = tuple(shlex.join(("tidegate", "datasets", "publish", uri)) for uri in uris)
            return Advice(f"an event of {' and of '.join(inputs)}", commands)
        case remedy.MendFile(path):
            return Advice(f"mend the condition in {path}")
        case remedy.EndRun(_, runs):
            return Advice(f"let {' or '.join(runs)} end")
        case remedy.Trigger(dag_id):
            return Advice("ask for a run", (shlex.join(("tidegate", "runs", "trigger", dag_id)),))


def _about_servers(change: remedy.StartDaemon | remedy.BringBack | remedy.Resume) -> Advice:
    match change:
        case remedy.StartDaemon():
            return Advice("start a daemon", ("tidegate daemon",))
        case remedy.BringBack(server):
            return Advice(f"bring back {server}")
        case remedy.Resume(partitions):
            commands = tuple(shlex.join(("tidegate", "topics", "resume", each, "--at", "earliest")) for each in partitions)
            return Advice("say from where on these partitions are to be read", commands)
