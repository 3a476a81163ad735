"""How far a run has come: its active tasks, its waiting tasks, and the reasons why these wait."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from tidegate.schemas.explain.reasons import Reason
from tidegate.schemas.state import RunState, TaskState


class ActiveTask(msgspec.Struct, frozen=True):
    """A queued or running task. `since` is when its attempt started, or began to wait for its backend."""

    task_id: str
    state: TaskState
    try_number: int
    since: datetime | None
    backend: str | None
    host: str | None


class BlockedTask(msgspec.Struct, frozen=True):
    """A task that is neither active nor ended. With nothing in `blocked_by`, its turn is about to come."""

    task_id: str
    state: TaskState
    blocked_by: tuple[Reason, ...]


class RunProgress(msgspec.Struct, frozen=True):
    """How far a run has come. `blocked_by` are the reasons why the whole run waits. Tasks appear once the run has started.

    `tasks` counts a mapped task once; each of its instances, `load[3]`, is listed by itself.
    """

    dag_id: str
    run_id: str
    state: RunState
    tasks: int
    ended: int
    counts: Mapping[TaskState, int]
    blocked_by: tuple[Reason, ...]
    working: tuple[ActiveTask, ...]
    waiting: tuple[BlockedTask, ...]
