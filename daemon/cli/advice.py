"""What opens closed gates, in words and as commands."""

import shlex

import msgspec

from tidegate.daemon.cli.moment import utc
from tidegate.schemas import chain as shown


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
        case shown.StartDaemon() | shown.BringBack() | shown.Resume():
            return _about_servers(change)
        case shown.EndUpstream() | shown.Clear() | shown.EndTasks():
            return _about_tasks(change)
        case shown.Publish() | shown.MendFile() | shown.EndRun() | shown.Trigger():
            return _about_starts(change)
        case shown.RaiseRuns() | shown.SetSlots() | shown.SetParallelism():
            return _more_room(change)


def _more_room(change: shown.RaiseRuns | shown.SetSlots | shown.SetParallelism) -> Advice:
    match change:
        case shown.RaiseRuns(_, path, limit, runs):
            instead = f", or let {' or '.join(runs)} end" if runs else ""
            return Advice(f"raise max_active_runs to {limit} in {path}{instead}")
        case shown.SetSlots(pool, slots, tasks):
            instead = f", or let {' or '.join(tasks)} end" if tasks else ""
            wanted = "1 slot" if slots == 1 else f"{slots} slots"
            commands = (shlex.join(("tidegate", "pools", "set", pool, str(slots))),)
            return Advice(f"give pool {pool!r} {wanted}{instead}", commands)
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


def _about_starts(change: shown.Publish | shown.MendFile | shown.EndRun | shown.Trigger) -> Advice:
    match change:
        case shown.Publish(inputs, uris):
            commands = tuple(shlex.join(("tidegate", "datasets", "publish", uri)) for uri in uris)
            return Advice(f"an event of {' and of '.join(inputs)}", commands)
        case shown.MendFile(path):
            return Advice(f"mend the condition in {path}")
        case shown.EndRun(_, runs):
            return Advice(f"let {' or '.join(runs)} end")
        case shown.Trigger(dag_id):
            return Advice("ask for a run", (shlex.join(("tidegate", "runs", "trigger", dag_id)),))


def _about_servers(change: shown.StartDaemon | shown.BringBack | shown.Resume) -> Advice:
    match change:
        case shown.StartDaemon():
            return Advice("start a daemon", ("tidegate daemon",))
        case shown.BringBack(server):
            return Advice(f"bring back {server}")
        case shown.Resume(partitions):
            commands = tuple(shlex.join(("tidegate", "topics", "resume", each, "--at", "earliest")) for each in partitions)
            return Advice("say from where on these partitions are to be read", commands)
