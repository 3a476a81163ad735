"""Runs: their rows, their moves, and requests to reconsider them."""

from datetime import datetime
from typing import Any

import msgspec

from tidegate.schemas.view import RunView
from tidegate.schemas.wire.event import DagRunStateChanged


class InsertRun(RunView, frozen=True, kw_only=True):
    """A new run after its first moves. Its `id` was reserved when its DAG was locked. `events`: how many it consumes."""

    end_date: datetime | None
    conf: dict[str, Any]
    events: int


class UpdateRun(RunView, frozen=True, kw_only=True):
    """A run's new state, counters and dates, written under its lock.

    A run that is queued again loses its dates; otherwise dates of None leave what is there.
    """

    end_date: datetime | None


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
