"""Changes that open closed gates: what lets a task run, or makes a run."""

from datetime import datetime

import msgspec


class Unpause(msgspec.Struct, frozen=True, tag="unpause", tag_field="kind"):
    """Unpause the DAG."""

    dag_id: str


class RestoreFile(msgspec.Struct, frozen=True, tag="restore_file", tag_field="kind"):
    """Put the DAG into a DAG file again. It was in `path`."""

    dag_id: str
    path: str


class Wait(msgspec.Struct, frozen=True, tag="wait", tag_field="kind"):
    """Wait until then; None: for a moment."""

    until: datetime | None


class RaiseRuns(msgspec.Struct, frozen=True, tag="raise_max_active_runs", tag_field="kind"):
    """Raise `max_active_runs` of the DAG to `limit`, or end as many of `runs` as it is raised by."""

    dag_id: str
    path: str
    limit: int
    runs: tuple[str, ...]


class SetSlots(msgspec.Struct, frozen=True, tag="set_slots", tag_field="kind"):
    """Give the pool `slots` slots, or let some of `tasks`, which occupy it, end."""

    pool: str
    slots: int
    tasks: tuple[str, ...] = ()


class EndTasks(msgspec.Struct, frozen=True, tag="end_tasks", tag_field="kind"):
    """End `count` of `tasks`, given as (DAG, run, task). The limit is fixed for existing runs."""

    limit: str
    count: int
    tasks: tuple[tuple[str, str, str], ...]


class SetParallelism(msgspec.Struct, frozen=True, tag="set_parallelism", tag_field="kind"):
    """Raise the parallelism of the installation to `limit`, or let an active task end."""

    limit: int


class EndUpstream(msgspec.Struct, frozen=True, tag="end_upstream", tag_field="kind"):
    """Let these tasks of the run end: the first that everything downstream waits for."""

    dag_id: str
    run_id: str
    tasks: tuple[str, ...]


class Clear(msgspec.Struct, frozen=True, tag="clear", tag_field="kind"):
    """Clear these tasks of the run."""

    dag_id: str
    run_id: str
    tasks: tuple[str, ...]


class StartDaemon(msgspec.Struct, frozen=True, tag="start_daemon", tag_field="kind"):
    """Start a daemon."""


class BringBack(msgspec.Struct, frozen=True, tag="bring_back", tag_field="kind"):
    """Restore the server, or the way from the daemons to it."""

    server: str


class Publish(msgspec.Struct, frozen=True, tag="publish", tag_field="kind"):
    """Publish an event of each of `inputs`, which makes the condition hold. Those in `uris` have no filter."""

    inputs: tuple[str, ...]
    uris: tuple[str, ...]


class MendFile(msgspec.Struct, frozen=True, tag="mend_file", tag_field="kind"):
    """Correct the condition in the DAG file."""

    path: str


class Resume(msgspec.Struct, frozen=True, tag="resume", tag_field="kind"):
    """Say from which offset on these partitions are read."""

    partitions: tuple[str, ...]


class EndRun(msgspec.Struct, frozen=True, tag="end_run", tag_field="kind"):
    """Let one of these runs of the DAG end."""

    dag_id: str
    runs: tuple[str, ...]


class Trigger(msgspec.Struct, frozen=True, tag="trigger", tag_field="kind"):
    """Trigger a run."""

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
