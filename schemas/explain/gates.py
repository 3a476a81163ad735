"""Explanations: the gates between a task instance and its start, or between a DAG and its next run, with their reasons."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from tidegate.schemas.explain.reasons import Reason
from tidegate.schemas.explain.remedy import Change
from tidegate.schemas.state import TaskState


class GateState(StrEnum):
    """`not reached`: whether the gate is open shows only once those before it are."""

    OPEN = "open"
    CLOSED = "closed"
    NOT_REACHED = "not reached"


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """One step on the way. A closed gate has a `reason`. `since` is when the gate came to be closed, `facts` are named values."""

    name: str
    state: GateState
    reason: Reason | None = None
    since: datetime | None = None
    facts: Mapping[str, Any] = {}


class DagExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The gates between a DAG and its next run by datasets or by time.

    `starts`: the next decision of a daemon makes a run. All of `change` is needed for one. Where datasets and time each make
    runs, `instead` is the change for a run by time.
    """

    dag_id: str
    starts: bool
    gates: tuple[Gate, ...]
    change: tuple[Change, ...]
    instead: tuple[Change, ...] = ()

    @property
    def closed(self) -> tuple[Gate, ...]:
        return closed(self.gates)


class TaskExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The gates of a task instance in their order. `state` is None before the run started.

    All of `change` is needed to open the closed gates; it is empty where none is closed, or none can be opened. Gates that are
    not reached may turn out to be closed afterwards.
    """

    dag_id: str
    run_id: str
    task: str
    state: TaskState | None
    gates: tuple[Gate, ...]
    change: tuple[Change, ...]

    @property
    def closed(self) -> tuple[Gate, ...]:
        return closed(self.gates)


def closed(gates: tuple[Gate, ...]) -> tuple[Gate, ...]:
    return tuple(gate for gate in gates if gate.state is GateState.CLOSED)
