"""Whether a queued run may start, and if not, why. The answer that decides is the answer that explains."""

from collections.abc import Iterator
from datetime import datetime

from tidegate.schemas import progress as shown
from tidegate.schemas.view import held_by


def full(running: int, limit: int) -> shown.DagLimit | None:
    """Whether so many runs of a DAG are all that may work at a time."""
    return shown.DagLimit(limit) if running >= limit else None


def run_blocks(
    *, is_paused: bool, is_stale: bool, run_after: datetime, running: int, ahead: int, limit: int, now: datetime
) -> Iterator[shown.RunBlock]:
    """All that keeps a queued run from starting; `ahead` others of its DAG come first."""
    yield from held_by(is_paused=is_paused, is_stale=is_stale)
    if run_after > now:
        yield shown.NotYetDue(run_after)
    if block := full(running, limit):
        yield block
    if ahead:
        yield shown.RunsAhead(ahead)
