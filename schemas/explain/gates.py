"""Explanations: the gates between a task and its start or a DAG and its next run, with their reasons; the progress of a run."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec

from tidegate.schemas.explain.reasons import DagReason, ProgressReason, Reason, TaskReason
from tidegate.schemas.explain.remedy import Change
from tidegate.schemas.state import RunState, TaskState

Reason_co = TypeVar("Reason_co", bound=Reason, covariant=True)


class GateState(StrEnum):
    """`not reached`: the gate is evaluated once the gates before it are open."""

    OPEN = "open"
    CLOSED = "closed"
    NOT_REACHED = "not reached"


class Gate(msgspec.Struct, Generic[Reason_co], frozen=True, kw_only=True):
    """A condition of a start. A closed gate has a `reason`. `since` is when the gate closed, `facts` are named values."""

    name: str
    state: GateState
    reason: Reason_co | None = None
    since: datetime | None = None
    facts: Mapping[str, Any] = {}


class DagExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The gates between a DAG and its next run by datasets or by time.

    `starts`: the next decision of a daemon makes a run. All of `change` is needed for one. Where datasets and time each make
    runs, `instead` is the change for a run by time.
    """

    dag_id: str
    starts: bool
    gates: tuple[Gate[DagReason], ...]
    change: tuple[Change, ...]
    instead: tuple[Change, ...] = ()

    @property
    def closed(self) -> tuple[Gate[DagReason], ...]:
        return closed(self.gates)


class TaskExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The gates of a task instance in their order. `state` is None before the run started.

    All of `change` is needed to open the closed gates; it is empty if none is closed, or none can be opened. Gates that are not
    reached may be closed, too.
    """

    dag_id: str
    run_id: str
    task: str
    state: TaskState | None
    gates: tuple[Gate[TaskReason], ...]
    change: tuple[Change, ...]

    @property
    def closed(self) -> tuple[Gate[TaskReason], ...]:
        return closed(self.gates)


def closed(gates: tuple[Gate[Reason_co], ...]) -> tuple[Gate[Reason_co], ...]:
    return tuple(gate for gate in gates if gate.state is GateState.CLOSED)


class ActiveTask(msgspec.Struct, frozen=True):
    """A queued or running task. `since` is when its attempt started, or began to wait for its backend."""

    task_id: str
    state: TaskState
    try_number: int
    since: datetime | None
    backend: str | None
    host: str | None


class BlockedTask(msgspec.Struct, frozen=True):
    """A task that is neither active nor ended. With an empty `blocked_by` it starts soon."""

    task_id: str
    state: TaskState
    blocked_by: tuple[ProgressReason, ...]


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
    blocked_by: tuple[ProgressReason, ...]
    working: tuple[ActiveTask, ...]
    waiting: tuple[BlockedTask, ...]
