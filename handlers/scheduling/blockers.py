"""Whether a DAG may have a new dataset run now, and if not, why. The answer that decides is the answer that explains."""

from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from tidegate.handlers.scheduling.condition import Apart, Busy, Open, TooSoon, Verdict, Waiting, judge
from tidegate.handlers.scheduling.input_deadline import deadline_of
from tidegate.handlers.scheduling.inputs import inputs_of
from tidegate.handlers.scheduling.run_limit import has_room
from tidegate.schemas.conditions.condition import Condition, holds, leaves
from tidegate.schemas.view import DagView


class NotScheduled(msgspec.Struct, frozen=True):
    """The DAG is not scheduled on datasets."""


class Paused(msgspec.Struct, frozen=True):
    """The DAG is paused."""


class Stale(msgspec.Struct, frozen=True):
    """The DAG is in no file at the moment."""


class AtRunLimit(msgspec.Struct, frozen=True):
    """`max_active_runs` runs are running."""

    active: int
    limit: int


class AwaitsTick(msgspec.Struct, frozen=True):
    """Only a tick of the timetable makes a run, if the condition holds then."""


class Broken(msgspec.Struct, frozen=True):
    """The condition cannot be read."""

    reason: str


Gate = Open | NotScheduled | Paused | Stale | AtRunLimit | AwaitsTick | Waiting | Apart | Busy | TooSoon | Broken


def gate(dag: DagView, now: datetime) -> Gate:
    """The first closed gate, or Open."""
    return NotScheduled() if dag.graph.schedule is None else next(gates(dag, dag.graph.schedule, now))


def gates(dag: DagView, schedule: Condition, now: datetime) -> Iterator[Gate]:
    """All closed gates in their order, and at last what the condition says to what waits."""
    if dag.is_paused:
        yield Paused()
    if dag.is_stale:
        yield Stale()
    if not has_room(dag):
        yield AtRunLimit(dag.running, dag.graph.max_active_runs)
    if dag.graph.requires_both:
        yield AwaitsTick()
    yield condition_gate(dag, now) if dag.graph.inspects_events else _plain_gate(dag, schedule)


def condition_gate(dag: DagView, now: datetime) -> Verdict | Broken:
    """What the condition says to what waits, whatever else holds the DAG up. Whoever is past a deadline waits for no quiet."""

    def verdict() -> Verdict:
        found = inputs_of(dag, now)
        due = deadline_of(dag, found, now)
        return judge(dag.graph, found, now, dag.dataset_run_at, hurry=due is not None and due <= now)

    return sure(verdict)


def sure(verdict: Callable[[], Verdict]) -> Verdict | Broken:
    """The verdict, or why there is none."""
    try:
        return verdict()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is about this DAG only
        return Broken(f"{type(error).__name__}: {error}")


def _plain_gate(dag: DagView, schedule: Condition) -> Open | Waiting:
    """The usual case, in which only the datasets of events matter."""
    pending = {event.uri for event in dag.pending}
    return Open(dag.pending) if holds(schedule, pending) else Waiting(tuple(sorted(leaves(schedule) - pending)))
