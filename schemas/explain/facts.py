"""Facts that explanations start from. They are read without locks; no decision depends on them."""

from datetime import datetime

import msgspec

from tidegate.schemas.backfill import BackfillCapacity
from tidegate.schemas.view import RunView


class DagStatus(msgspec.Struct, frozen=True):
    """A DAG and its file. `running` names the first few of its running runs.

    `paused_at` and `stale_at` are when it last became so; it may have changed since. `hold_reason`: None if it is not held.
    """

    path: str
    version: int
    is_paused: bool
    is_stale: bool
    paused_at: datetime | None
    stale_at: datetime | None
    held_since: datetime | None
    hold_reason: str | None
    import_error: str | None
    broken_since: datetime | None
    running: list[str]


class InactiveDag(msgspec.Struct, frozen=True):
    """A DAG that is `paused`, `stale` or `held`, and its file."""

    dag_id: str
    state: str
    path: str


class RunFacts(msgspec.Struct, frozen=True):
    """A run in its DAG's order. `running_runs` of the DAG are running, `runs_ahead` queued ones start before this one.

    `run_before` is the previous run, in any state. The run consumed `events`; `reason` is that of its last change of state. For a
    run of a `backfill`, `running_runs` and `runs_ahead` are of the backfill, whose tasks are counted in the pool of the run;
    `inactive` is another DAG of it that keeps it from starting runs.
    """

    view: RunView
    newest_version_id: int
    running_runs: int
    runs_ahead: int
    run_before: str | None
    version: int
    created_at: datetime
    end_date: datetime | None
    events: int
    reason: str | None
    backfill: BackfillCapacity | None = None
    inactive: InactiveDag | None = None


class TaskRow(msgspec.Struct, frozen=True):
    """The pool of a task instance, and when it became ready and ended. `reason`: why it has its state, if not by an attempt."""

    pool: str
    scheduled_at: datetime | None
    end_date: datetime | None
    reason: str | None = None


class OccupyingTask(msgspec.Struct, frozen=True):
    """A queued or running task instance. `task` is its name in its run; `since` is None while it is queued."""

    dag_id: str
    run_id: str
    task: str
    slots: int
    since: datetime | None


class AttemptFacts(msgspec.Struct, frozen=True):
    """The newest attempt of a task instance. `ahead` intents are submitted to its backend first.

    `has_owner`: the daemon that began to submit it is alive. `cluster`: the Spark cluster that its task names.
    """

    backend: str
    state: str
    created_at: datetime
    submitted_at: datetime | None
    started_at: datetime | None
    heartbeat_at: datetime | None
    ended_at: datetime | None
    host: str | None
    reason: str
    kill_reason: str | None
    ahead: int
    has_owner: bool
    cluster: str | None = None


class OpenAttempt(msgspec.Struct, frozen=True):
    """The attempt of an active task. `since` is when it started, or began to wait for its backend."""

    task_index: int
    backend: str
    host: str | None
    since: datetime
