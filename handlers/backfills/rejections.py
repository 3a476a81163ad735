"""Why a request about a backfill is rejected."""

from collections.abc import Iterator, Sequence

from tidegate.handlers.backfills.cascade import circle_of
from tidegate.handlers.backfills.dates import is_replay, next_ticks
from tidegate.schemas.backfill import BackfillView, Outlets, Reprocess, overlaps
from tidegate.schemas.effect import RejectMessage
from tidegate.schemas.graph import Graph
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


def no_cascade(backfill: BackfillView, edges: Sequence[tuple[str, str]], refusing: Sequence[str]) -> Iterator[RejectMessage]:
    """Why a cascade along these edges cannot be. `refusing` are consumers that allow no backfills."""
    if backfill.outlets is Outlets.CASCADE and backfill.reprocess is Reprocess.NONE:
        reason = "a cascade follows runs that run again, and --reprocess none runs none again"
        yield RejectMessage(0, NOT_POSSIBLE, f"{reason}; choose --reprocess failed or --reprocess completed")
    if refusing:
        reason = f"the cascade would come to DAG {refusing[0]!r}, whose file says allow_backfills=False"
        yield RejectMessage(0, NOT_POSSIBLE, f"{reason}; choose --outlets events")
    if found := circle_of(backfill.dag_id, edges):
        reason = (
            f"DAGs consume from each other in a circle: {' > '.join(found)}; a cascade would have no end; choose --outlets events"
        )
        yield RejectMessage(0, NOT_POSSIBLE, reason)


def unplannable(backfill: BackfillView, graph: Graph) -> Iterator[RejectMessage]:
    """Why the dates of a new backfill can never have runs."""
    dag = f"DAG {graph.dag_id!r}"
    if is_replay(backfill, graph):
        yield from _not_replayable(backfill, graph)
    elif not next_ticks(backfill, graph, 1):
        span = f"from {utc(backfill.start_date)} to {utc(backfill.end_date)}"
        yield RejectMessage(0, NO_DATES, f"{dag} has no date {span} that is due by {utc(backfill.horizon)}")
    if graph.sequential and backfill.is_reverse:
        yield RejectMessage(0, NOT_POSSIBLE, f"tasks of {dag} depend on the previous run: its dates cannot run in reverse order")
    if graph.sequential and backfill.reprocess is Reprocess.NONE:
        reason = f"tasks of {dag} depend on the previous run, and dates that have runs already would be passed over"
        yield RejectMessage(0, NOT_POSSIBLE, f"{reason}; choose --reprocess failed or --reprocess completed")


def _not_replayable(backfill: BackfillView, graph: Graph) -> Iterator[RejectMessage]:
    dag = f"DAG {graph.dag_id!r}"
    if graph.schedule is None:
        yield RejectMessage(0, NO_DATES, f"{dag} has no timetable that gives a range of dates; give each date by --date")
    elif backfill.reprocess is Reprocess.NONE:
        reason = f"datasets start the runs of {dag}: only runs that it has had can run again, with the events that they consumed"
        yield RejectMessage(0, NOT_POSSIBLE, f"{reason}; choose --reprocess failed or --reprocess completed")
    elif backfill.is_reverse:
        yield RejectMessage(0, NOT_POSSIBLE, f"datasets start the runs of {dag}: they cannot run again in reverse order")
