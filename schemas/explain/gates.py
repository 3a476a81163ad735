"""The gates that a task instance has to pass until it runs, and a DAG until it has a run; why they are closed."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from tidegate.schemas.dag import TriggerRule
from tidegate.schemas.explain.reasons import Block, DagLimit, DagPaused, DagStale, NoDaemon, NotYetDue, RunsAhead
from tidegate.schemas.explain.remedy import Change
from tidegate.schemas.state import RunState, TaskState


class GateState(StrEnum):
    """`not reached`: whether it is open shows only once those before it are."""

    OPEN = "open"
    CLOSED = "closed"
    NOT_REACHED = "not reached"


class RunEnded(msgspec.Struct, frozen=True, tag="run_ended", tag_field="kind"):
    """The run has ended: nothing of it starts any more."""

    state: RunState
    reason: str


class TaskEnded(msgspec.Struct, frozen=True, tag="task_ended", tag_field="kind"):
    """The task has ended for good. It had `tries`."""

    state: TaskState
    tries: int
    reason: str


class RuledOut(msgspec.Struct, frozen=True, tag="ruled_out", tag_field="kind"):
    """By its trigger rule, or by the choice of a branch, the task never runs."""

    rule: TriggerRule
    state: TaskState


class Outranked(msgspec.Struct, frozen=True, tag="outranked", tag_field="kind"):
    """What is free goes to others of the pool's queue first: to so many of them now."""

    pool: str
    others: int


class NotSubmitted(msgspec.Struct, frozen=True, tag="not_submitted", tag_field="kind"):
    """The attempt is an `intent`, or `submitting`: no backend has said that it took it."""

    backend: str
    state: str


class ServerAway(msgspec.Struct, frozen=True, tag="server_away", tag_field="kind"):
    """No daemon can reach what it needs to start tasks."""

    server: str
    error: str


class InputsMissing(msgspec.Struct, frozen=True, tag="inputs_missing", tag_field="kind"):
    """The condition does not hold: of these inputs no event is pending."""

    inputs: tuple[str, ...]


class InputsApart(msgspec.Struct, frozen=True, tag="inputs_apart", tag_field="kind"):
    """All inputs are there, but they did not happen within this time of each other."""

    within_s: float


class ConditionBroken(msgspec.Struct, frozen=True, tag="condition_broken", tag_field="kind"):
    """The condition cannot be read."""

    reason: str


class NoSchedule(msgspec.Struct, frozen=True, tag="no_schedule", tag_field="kind"):
    """Neither datasets nor time start runs of the DAG."""


class Unquiet(msgspec.Struct, frozen=True, tag="unquiet", tag_field="kind"):
    """The condition holds, but events have come too lately: it counts from then on if no more do."""

    until: datetime


class TooSoon(msgspec.Struct, frozen=True, tag="too_soon", tag_field="kind"):
    """The condition holds, but the run before was made too lately."""

    until: datetime


class TicksOver(msgspec.Struct, frozen=True, tag="ticks_over", tag_field="kind"):
    """The timetable has no more moments."""


class IntakeHalted(msgspec.Struct, frozen=True, tag="intake_halted", tag_field="kind"):
    """Nothing is read from these partitions until somebody decides from where on."""

    partitions: tuple[str, ...]


DagObstacle = (
    DagPaused
    | DagStale
    | DagLimit
    | NotYetDue
    | RunsAhead
    | NoDaemon
    | InputsMissing
    | InputsApart
    | ConditionBroken
    | NoSchedule
    | Unquiet
    | TooSoon
    | TicksOver
    | IntakeHalted
    | ServerAway
)
"""Why a gate of a DAG is closed."""

Obstacle = Block | RunEnded | TaskEnded | RuledOut | Outranked | NotSubmitted | ServerAway
"""Why a gate of a task instance is closed."""


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """One gate. `block` is why it is closed, `facts` what is known about it by name, `since` when it came to be so."""

    name: str
    state: GateState
    block: Obstacle | DagObstacle | None = None
    since: datetime | None = None
    facts: Mapping[str, Any] = {}


class DagChain(msgspec.Struct, frozen=True, kw_only=True):
    """All gates between a DAG and its next run by events or by time.

    `starts`: whether one starts as soon as a daemon looks. All of `change` is needed for one; where events and time each make
    runs, `instead` of what is said of events will do. As in `Chain`.
    """

    dag_id: str
    starts: bool
    gates: tuple[Gate, ...]
    change: tuple[Change, ...]
    instead: tuple[Change, ...] = ()

    @property
    def closed(self) -> tuple[Gate, ...]:
        return closed(self.gates)


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """All gates of a task instance in their order. Its `state` is None before its run started.

    `change` is the least that opens the gates that are closed: all of it is needed. Gates that are not reached yet may turn out
    to be closed then. Empty where nothing is closed, or nothing can help.
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
    """Those of these gates that are closed."""
    return tuple(gate for gate in gates if gate.state is GateState.CLOSED)
