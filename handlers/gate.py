"""Whether a DAG may have a new dataset run now, and if not, why. The answer that decides is the answer that explains."""

import msgspec

from tidegate.schemas.dag import holds, leaves
from tidegate.schemas.view import DagView


class Open(msgspec.Struct, frozen=True):
    """The condition holds and there is room."""


class NotScheduled(msgspec.Struct, frozen=True):
    """The DAG is not scheduled on datasets."""


class Paused(msgspec.Struct, frozen=True):
    """The DAG is paused."""


class Stale(msgspec.Struct, frozen=True):
    """The DAG is in no file at the moment."""


class AtRunLimit(msgspec.Struct, frozen=True):
    """`max_active_runs` runs are queued or running."""

    active: int
    limit: int


class Waiting(msgspec.Struct, frozen=True):
    """The condition does not hold; these datasets have no pending event."""

    missing: tuple[str, ...]


Gate = Open | NotScheduled | Paused | Stale | AtRunLimit | Waiting


def gate(dag: DagView) -> Gate:
    """The first closed gate, or Open."""
    schedule = dag.graph.schedule
    if schedule is None:
        return NotScheduled()
    if dag.is_paused:
        return Paused()
    if dag.is_stale:
        return Stale()
    active = dag.running + dag.queued
    if active >= dag.graph.max_active_runs:
        return AtRunLimit(active, dag.graph.max_active_runs)
    pending = {event.uri for event in dag.pending}
    if not holds(schedule, pending):
        return Waiting(tuple(sorted(leaves(schedule) - pending)))
    return Open()
