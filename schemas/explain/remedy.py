"""What opens closed gates: the smallest change that lets a task run, or makes a run."""

from datetime import datetime

import msgspec


class Unpause(msgspec.Struct, frozen=True, tag="unpause", tag_field="kind"):
    """Unpause the DAG."""

    dag_id: str


class RestoreFile(msgspec.Struct, frozen=True, tag="restore_file", tag_field="kind"):
    """Put the DAG into a DAG file again; it was in this one."""

    dag_id: str
    path: str


class Wait(msgspec.Struct, frozen=True, tag="wait", tag_field="kind"):
    """It will do to wait until then; None: it takes a moment."""

    until: datetime | None


class RaiseRuns(msgspec.Struct, frozen=True, tag="raise_max_active_runs", tag_field="kind"):
    """Raise `max_active_runs` of the DAG to this, or end one of these runs for each that it is more."""

    dag_id: str
    path: str
    limit: int
    runs: tuple[str, ...]


class SetSlots(msgspec.Struct, frozen=True, tag="set_slots", tag_field="kind"):
    """Give the pool so many slots; or these tasks, which have some, end."""

    pool: str
    slots: int
    tasks: tuple[str, ...] = ()


class EndTasks(msgspec.Struct, frozen=True, tag="end_tasks", tag_field="kind"):
    """So many of these tasks, as (DAG, run, task), are to end. What limits them is fixed for runs that there are."""

    limit: str
    count: int
    tasks: tuple[tuple[str, str, str], ...]


class SetParallelism(msgspec.Struct, frozen=True, tag="set_parallelism", tag_field="kind"):
    """Let so many tasks work in the installation, or one of those that do end."""

    limit: int


class EndUpstream(msgspec.Struct, frozen=True, tag="end_upstream", tag_field="kind"):
    """These tasks of the run are to end. They are what everything between waits for."""

    dag_id: str
    run_id: str
    tasks: tuple[str, ...]


class Clear(msgspec.Struct, frozen=True, tag="clear", tag_field="kind"):
    """Let these tasks of the run run again."""

    dag_id: str
    run_id: str
    tasks: tuple[str, ...]


class StartDaemon(msgspec.Struct, frozen=True, tag="start_daemon", tag_field="kind"):
    """Start a daemon."""


class BringBack(msgspec.Struct, frozen=True, tag="bring_back", tag_field="kind"):
    """Bring back the server, or mend what keeps the daemons from it."""

    server: str


class Publish(msgspec.Struct, frozen=True, tag="publish", tag_field="kind"):
    """An event of each of these inputs makes the condition hold. `uris` are those of which any event will do."""

    inputs: tuple[str, ...]
    uris: tuple[str, ...]


class MendFile(msgspec.Struct, frozen=True, tag="mend_file", tag_field="kind"):
    """Mend the condition in the DAG file."""

    path: str


class Resume(msgspec.Struct, frozen=True, tag="resume", tag_field="kind"):
    """Say from where on these partitions are to be read."""

    partitions: tuple[str, ...]


class EndRun(msgspec.Struct, frozen=True, tag="end_run", tag_field="kind"):
    """One of these runs of the DAG is to end."""

    dag_id: str
    runs: tuple[str, ...]


class Trigger(msgspec.Struct, frozen=True, tag="trigger", tag_field="kind"):
    """Ask for a run."""

    dag_id: str


Change = (
    Unpause
    | Publish
    | MendFile
    | Resume
    | EndRun
    | Trigger
    | RestoreFile
    | Wait
    | RaiseRuns
    | SetSlots
    | EndTasks
    | SetParallelism
    | EndUpstream
    | Clear
    | StartDaemon
    | BringBack
)
