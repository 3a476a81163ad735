"""Why a request about a backfill is rejected."""

from collections.abc import Iterator, Sequence

from tidegate.handlers.backfills.dates import next_ticks
from tidegate.schemas.backfill import BackfillView, Reprocess, overlaps
from tidegate.schemas.effect import RejectMessage
from tidegate.schemas.graph import Graph
from tidegate.schemas.timetable.between import has_dates
from tidegate.schemas.timetable.text import utc

NO_SUCH_BACKFILL = "no_such_backfill"
NOT_POSSIBLE = "not_possible"
OVERLAPS = "overlaps"
NO_DATES = "no_dates"


def no_such_backfill(id_: int) -> RejectMessage:
    return RejectMessage(0, NO_SUCH_BACKFILL, f"there is no backfill {id_}; `tidegate backfills list` shows all")


def not_in_state(backfill: BackfillView, verb: str) -> RejectMessage:
    return RejectMessage(0, NOT_POSSIBLE, f"backfill {backfill.id} is {backfill.state}: it cannot be {verb}")


def overlapping(backfill: BackfillView, others: Sequence[BackfillView]) -> Iterator[RejectMessage]:
    """Two backfills of a DAG may not share a date: each would run the runs of the other again."""
    for other in others:
        if other.id != backfill.id and overlaps(other, backfill.start_date, backfill.end_date, backfill.logical_dates):
            span = f"from {utc(other.start_date)} to {utc(other.end_date)}"
            reason = f"backfill {other.id} of DAG {other.dag_id!r} is {other.state} and has dates of the same time, {span}"
            yield RejectMessage(0, OVERLAPS, f"{reason}; wait for its end, cancel it, or choose other dates")


def unplannable(backfill: BackfillView, graph: Graph) -> Iterator[RejectMessage]:
    """Why the dates of a new backfill can never have runs."""
    dag = f"DAG {graph.dag_id!r}"
    if backfill.logical_dates is None and not has_dates(graph.timetable):
        yield RejectMessage(0, NO_DATES, f"{dag} has no timetable that gives a range of dates; give each date by --date")
    elif not next_ticks(backfill, graph, 1):
        span = f"from {utc(backfill.start_date)} to {utc(backfill.end_date)}"
        yield RejectMessage(0, NO_DATES, f"{dag} has no date {span} that is due by {utc(backfill.horizon)}")
    if graph.sequential and backfill.is_reverse:
        yield RejectMessage(0, NOT_POSSIBLE, f"tasks of {dag} depend on the previous run: its dates cannot run in reverse order")
    if graph.sequential and backfill.reprocess is Reprocess.NONE:
        reason = f"tasks of {dag} depend on the previous run, and dates that have runs already would be passed over"
        yield RejectMessage(0, NOT_POSSIBLE, f"{reason}; choose --reprocess failed or --reprocess completed")
