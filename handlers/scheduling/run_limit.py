"""Whether a queued run may start, and if not, why. The answer that decides is the answer that explains."""

from collections.abc import Iterator
from datetime import datetime

from tidegate.schemas.explain import reasons as shown
from tidegate.schemas.view import DagView, RunFacts, held_by


def full(running: int, limit: int) -> shown.DagLimit | None:
    """Whether so many runs of a DAG are all that may work at a time."""
    return shown.DagLimit(limit) if running >= limit else None


def has_room(dag: DagView) -> bool:
    """Whether one more run may be at work."""
    return full(dag.running, dag.graph.max_active_runs) is None


def run_blocks(facts: RunFacts, limit: int, now: datetime) -> Iterator[shown.RunBlock]:
    """All that keeps a queued run from starting, where so many runs of its DAG may work at a time."""
    yield from held_by(is_paused=facts.is_paused, is_stale=facts.is_stale)
    if facts.run.run_after > now:
        yield shown.NotYetDue(facts.run.run_after)
    if block := full(facts.running_runs, limit):
        yield block
    if facts.runs_ahead:
        yield shown.RunsAhead(facts.runs_ahead)
