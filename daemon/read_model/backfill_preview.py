"""What a backfill that is not created yet would do: its first dates, the totals, and what else a user should know."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from tidegate.daemon.read_model.backfill_progress import MOST_COUNTED
from tidegate.schemas.text import counted

PreviewAction = Literal["create", "rerun", "skip"]

ACTIONS: Mapping[PreviewAction, tuple[str, str]] = {
    "create": ("gets a run", "get a run"),
    "rerun": ("runs again", "run again"),
    "skip": ("is skipped", "are skipped"),
}


class PreviewDate(msgspec.Struct, frozen=True):
    """A date, and what a backfill would do with it: `create` a run, `rerun` the existing one, or `skip` it for a reason."""

    logical_date: datetime
    action: PreviewAction
    run_id: str | None
    reason: str


class Preview(msgspec.Struct, frozen=True):
    """The first dates of a backfill that is not created yet. `more`: others follow.

    `counts` has the number of dates by action, of the first 10,000 dates at least; `is_exact`: of all. `not_due` dates of the
    future get no run. `consumers`: the DAGs of a cascade, whose runs may run again. `left`: without a
    cascade, the DAGs whose runs keep what they have read from the runs that run again.
    """

    dates: Sequence[PreviewDate]
    more: bool
    counts: Mapping[PreviewAction, int] = {}
    is_exact: bool = True
    not_due: int = 0
    consumers: Sequence[str] = ()
    left: Sequence[str] = ()


def preview_of(dates: Sequence[PreviewDate], limit: int) -> Preview:
    """The first `limit` of the dates, and the totals; `dates` has one more than are counted if others follow."""
    most = most_counted(limit)
    counts = Counter(date.action for date in dates[:most])
    return Preview(dates[:limit], more=len(dates) > limit, counts=dict(counts), is_exact=len(dates) <= most)


def most_counted(limit: int) -> int:
    return max(limit, MOST_COUNTED)


def says(found: Preview) -> Iterator[str]:
    """The totals, and what else would happen, in sentences."""
    parts = [counted(found.counts[action], *texts) for action, texts in ACTIONS.items() if found.counts.get(action)]
    total = sum(found.counts.values())
    which = counted(total, "date", "dates") if found.is_exact else f"The first {total:,} dates"
    yield f"{which}: {', '.join(parts)}." if parts else "No date would get a run."
    if found.not_due:
        yield f"{counted(found.not_due, 'date is', 'dates are')} not due yet: no run."
    if found.consumers:
        yield f"Runs of {', '.join(found.consumers)} that consumed what is rewritten run again, too."
    if found.left:
        stay = f"Runs of {', '.join(found.left)} that consumed what is rewritten stay as they are"
        yield f"{stay}; outlets=cascade runs them again."
