"""Runs: their rows, their moves, and requests to reconsider them."""

from datetime import datetime
from typing import Any

import msgspec

from tidegate.schemas.state import RunState
from tidegate.schemas.view import RunView
from tidegate.schemas.wire.event import DagRunStateChanged


class InsertRun(RunView, frozen=True, kw_only=True):
    """A new run after its first moves. Its `id` was reserved when its DAG was locked. `events`: how many it consumes."""

    conf: dict[str, Any]
    end_date: datetime | None
    events: int


class UpdateRun(msgspec.Struct, frozen=True):
    """A run's new state and counters, written under its lock.

    `state_seq` and `task_seq` are the numbers last given to its run-state and task-state events. `unfinished` counts its
    tasks without an end state, `active_tasks` its attempts under way, `failed_leaves` those tasks that decide about the run and
    failed. A run that is queued again loses its dates; otherwise `start_date`, `end_date` and `times_out_at` of None leave what
    is there.
    """

    id: int
    state: RunState
    state_seq: int
    task_seq: int
    unfinished: int
    failed_leaves: int
    active_tasks: int
    start_date: datetime | None = None
    end_date: datetime | None = None
    times_out_at: datetime | None = None


class ChangeVersion(msgspec.Struct, frozen=True):
    """A run changes to another version of its DAG. `indices`: old and new index of each task, negative for one that is gone."""

    dag_run_id: int
    version_id: int
    max_active_tasks: int
    indices: tuple[tuple[int, int], ...]


class RunMoved(msgspec.Struct, frozen=True):
    """Journal and publish a run's move."""

    dag_run_id: int
    event: DagRunStateChanged


class Reconsider(msgspec.Struct, frozen=True):
    """Request that all tasks of the run are evaluated; with a reason, that the run is stopped."""

    dag_run_id: int
    stop_reason: str | None = None


class ReconsiderAfter(msgspec.Struct, frozen=True):
    """Runs of the DAG that come after this one may have waited for it."""

    dag_id: str
    dag_run_id: int


RunEffect = InsertRun | UpdateRun | ChangeVersion | RunMoved | Reconsider | ReconsiderAfter
