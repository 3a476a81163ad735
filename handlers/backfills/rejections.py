"""Why requests about backfills are rejected."""

import shlex
from collections.abc import Iterator, Sequence

import msgspec

from tidegate.handlers.backfills.cascade import cycle_of
from tidegate.handlers.backfills.dates import is_replay, next_ticks
from tidegate.handlers.backfills.stop import has_dates_to_retry, limited
from tidegate.handlers.runs.rejections import PARAMS_CHANGED
from tidegate.schemas.backfill import BackfillView, Outlets, Reprocess, limits_version, overlaps
from tidegate.schemas.effect import RejectMessage
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import BackfillActed, BackfillAction, BackfillChanged, BackfillRequested
from tidegate.schemas.state import BACKFILL_ENDED, BACKFILL_STARTS, BackfillState
from tidegate.schemas.text import utc
from tidegate.schemas.timetable.between import anchor_of, has_dates, is_date, nearest_dates
from tidegate.schemas.view import LockedDag

NO_SUCH_BACKFILL = "no_such_backfill"
NO_SUCH_POOL = "no_such_pool"
NOT_POSSIBLE = "not_possible"
STALE = "stale"
OVERLAPS = "overlaps"
NO_DATES = "no_dates"

RUN_AGAIN = "choose failed or completed for reprocess"
"""The advice of rejections. Commands, forms and the API have these words for the option and its values."""


def no_such_backfill(id_: int) -> RejectMessage:
    return RejectMessage(NO_SUCH_BACKFILL, f"there is no backfill {id_}; `tidegate backfills list` shows all")


def no_such_pool(pool: str | None) -> RejectMessage:
    command = f"tidegate pools set {shlex.quote(pool or '')} SLOTS"
    return RejectMessage(NO_SUCH_POOL, f"there is no pool {pool!r}; `{command}` makes it", "pool")


def uncreatable(request: BackfillRequested, backfill: BackfillView, dag: LockedDag) -> Iterator[RejectMessage]:
    """Why a backfill of this DAG cannot be created."""
    name = f"DAG {request.dag_id!r}"
    if dag.is_stale:
        yield RejectMessage(NOT_POSSIBLE, f"{name} is in no DAG file: its runs would never start", "dag_id")
    yield from _refused_by(dag.graph)
    if dag.graph.params != request.params:
        yield _params_changed(dag.graph)
    yield from unplannable(backfill, dag.graph)


def _refused_by(graph: Graph) -> Iterator[RejectMessage]:
    if not graph.allow_backfills:
        reason = f"DAG {graph.dag_id!r} allows no backfills: its file says allow_backfills=False"
        yield RejectMessage(NOT_POSSIBLE, reason, "dag_id")


def _params_changed(graph: Graph) -> RejectMessage:
    reason = f"the parameters of DAG {graph.dag_id!r} changed after the conf was checked; repeat the request"
    return RejectMessage(PARAMS_CHANGED, reason)


def unactable(backfill: BackfillView, request: BackfillActed, done: str) -> Iterator[RejectMessage]:
    """Why an action is not possible in the state of the backfill. `done` is the action in the past."""
    if not _is_actable(backfill, request):
        yield not_in_state(backfill, done)


def _is_actable(backfill: BackfillView, request: BackfillActed) -> bool:
    """A second cancel is only possible to end the running runs, too."""
    match request.action:
        case BackfillAction.PAUSE:
            return backfill.state in BACKFILL_STARTS
        case BackfillAction.RESUME:
            return backfill.state is BackfillState.PAUSED
        case BackfillAction.CANCEL if backfill.state is BackfillState.CANCELLING:
            return request.kills and not backfill.kills
        case BackfillAction.CANCEL:
            return backfill.state not in BACKFILL_ENDED
        case BackfillAction.RETRY:
            return backfill.state is not BackfillState.CANCELLING
        case _:  # delete
            return backfill.state in BACKFILL_ENDED


def unretriable(
    backfill: BackfillView, request: BackfillActed, others: Sequence[BackfillView], newest: Graph | None, *, has_pool: bool = True
) -> Iterator[RejectMessage]:
    """Why failed dates cannot run again; `newest`: with this version. `has_pool`: its pool exists, if it has one."""
    if not has_dates_to_retry(backfill):
        yield RejectMessage(NOT_POSSIBLE, f"backfill {backfill.id} has no failed or cancelled date")
    yield from overlapping(backfill, others)
    if not has_pool:
        yield no_such_pool(backfill.pool)
    if newest is not None:
        yield from _unpinnable(backfill, request, newest)


def _unpinnable(backfill: BackfillView, request: BackfillActed, newest: Graph) -> Iterator[RejectMessage]:
    """Why a backfill cannot go on with another version of its DAG.

    The runs of an older version would repeat the ids of attempts, which contain the version: tasks that it has again begin anew.
    """
    yield from _refused_by(newest)
    if newest.params != request.params:
        yield _params_changed(newest)
    if newest.version_id < backfill.version_id:
        reason = f"the newest version of DAG {newest.dag_id!r} is older than that of backfill {backfill.id}"
        yield RejectMessage(NOT_POSSIBLE, f"{reason}: the ids of attempts would repeat; retry with the version of the backfill")
    if not backfill.is_planned and backfill.logical_dates is None and is_replay(backfill, newest):
        reason = f"the newest version of DAG {newest.dag_id!r} has no timetable that gives the dates not planned yet"
        yield RejectMessage(NOT_POSSIBLE, f"{reason}; retry with the version of the backfill")
    if newest.sequential and backfill.is_reverse:
        yield _no_reverse(newest)


def _no_reverse(graph: Graph) -> RejectMessage:
    reason = f"tasks of DAG {graph.dag_id!r} depend on the previous run: its dates cannot run in reverse order"
    return RejectMessage(NOT_POSSIBLE, reason, "is_reverse")


def unchangeable(
    backfill: BackfillView, request: BackfillChanged, others: Sequence[BackfillView], *, has_pool: bool
) -> Iterator[RejectMessage]:
    """Why the limits, or the end of the dates, cannot change. No date may then be one of the `others` of the DAG."""
    after = limited(backfill, request.changes)
    if request.expected is not None and request.expected != limits_version(backfill):
        yield RejectMessage(STALE, f"backfill {backfill.id} was changed meanwhile; read it again, and repeat the change")
    if request.end_date:
        yield from _unextendable(after, request)
    if backfill.state is BackfillState.CANCELLING:
        yield not_in_state(backfill, "changed")
    if not has_pool:
        yield no_such_pool(request.changes.get("pool", backfill.pool))
    if request.end_date or after.state is not backfill.state:
        for rejected in overlapping(msgspec.structs.replace(after, end_date=request.end_date or after.end_date), others):
            yield msgspec.structs.replace(rejected, field="end_date" if request.end_date else "")


def _unextendable(backfill: BackfillView, request: BackfillChanged) -> Iterator[RejectMessage]:
    """Why a backfill cannot have more dates. An ended one can, unless it was cancelled."""
    if reason := _why_no_more_dates(backfill, request):
        yield RejectMessage(NOT_POSSIBLE, f"backfill {backfill.id} {reason}", "end_date")


def _why_no_more_dates(backfill: BackfillView, request: BackfillChanged) -> str:
    if backfill.is_reverse:
        return "runs in reverse order: create another one for more dates"
    if backfill.logical_dates is not None:
        return "has a list of dates: create another one for more dates"
    if request.end_date is not None and request.end_date <= backfill.end_date:
        return f"ends at {utc(backfill.end_date)} already"
    if backfill.has_begun_cascade or (backfill.stages and backfill.state in BACKFILL_ENDED):
        return "has begun its cascade: create another one for more dates"
    if backfill.state in (BackfillState.CANCELLED, BackfillState.CANCELLING):
        can_go_on = backfill.state is BackfillState.CANCELLED and has_dates_to_retry(backfill)
        instead = "retry it first, or create" if can_go_on else "create"
        return f"is {backfill.state}: it cannot be extended; {instead} another one for more dates"
    if backfill.stop_reason:
        return f"stopped: {backfill.stop_reason}; retry it first, or create another one for more dates"
    return ""


def not_in_state(backfill: BackfillView, verb: str) -> RejectMessage:
    reason = f"backfill {backfill.id} is {backfill.state}: it cannot be {verb}"
    waits = backfill.state is BackfillState.CANCELLING and not backfill.kills
    return RejectMessage(NOT_POSSIBLE, f"{reason}; wait for its end, or {_kill(backfill)}" if waits else reason)


def _kill(backfill: BackfillView) -> str:
    return f"end its running runs by `tidegate backfills cancel {backfill.id} --kill`"


def overlapping(backfill: BackfillView, others: Sequence[BackfillView]) -> Iterator[RejectMessage]:
    """Two backfills of a DAG may not share a date: each would run the runs of the other again."""
    for other in others:
        if other.id != backfill.id and overlaps(other, backfill.start_date, backfill.end_date, backfill.logical_dates):
            span = f"from {utc(other.start_date)} to {utc(other.end_date)}"
            reason = f"backfill {other.id} of DAG {other.dag_id!r} is {other.state} and has dates of the same time, {span}"
            instead = _kill(other) if other.state is BackfillState.CANCELLING else "cancel it"
            yield RejectMessage(OVERLAPS, f"{reason}; wait for its end, {instead}, or choose other dates", _dates(backfill))


def no_cascade(backfill: BackfillView, edges: Sequence[tuple[str, str]], refusing: Sequence[str]) -> Iterator[RejectMessage]:
    """Why a cascade along these edges cannot be. `refusing` are consumers that allow no backfills."""
    if backfill.outlets is Outlets.CASCADE and backfill.reprocess is Reprocess.NONE:
        reason = "a cascade follows runs that run again, and with reprocess none no run does"
        yield RejectMessage(NOT_POSSIBLE, f"{reason}; {RUN_AGAIN}", "reprocess")
    yield from no_cascade_along(edges, refusing, "choose events for outlets", "outlets")


def no_cascade_along(
    edges: Sequence[tuple[str, str]], refusing: Sequence[str], instead: str, field: str = ""
) -> Iterator[RejectMessage]:
    """Why no request may cascade along these edges; `instead` is what the user may do."""
    if refusing:
        reason = f"the cascade would come to DAG {refusing[0]!r}, whose file says allow_backfills=False"
        yield RejectMessage(NOT_POSSIBLE, f"{reason}; {instead}", field)
    if found := cycle_of(edges):
        reason = f"DAGs consume from each other in a cycle: {' > '.join(found)}; a cascade would have no end"
        yield RejectMessage(NOT_POSSIBLE, f"{reason}; {instead}", field)


def unplannable(backfill: BackfillView, graph: Graph) -> Iterator[RejectMessage]:
    """Why the dates of a new backfill can never have runs."""
    dag = f"DAG {graph.dag_id!r}"
    if is_replay(backfill, graph):
        yield from _not_replayable(backfill, graph)
    elif not next_ticks(backfill, graph, 1):
        span = f"from {utc(backfill.start_date)} to {utc(backfill.end_date)}"
        yield RejectMessage(NO_DATES, f"{dag} has no date {span} that is due by {utc(backfill.horizon)}", _dates(backfill))
    if has_dates(graph.timetable):
        yield from _stray_date(backfill, graph)
    if graph.sequential and backfill.is_reverse:
        yield _no_reverse(graph)
    if graph.sequential and backfill.reprocess is Reprocess.NONE:
        reason = f"tasks of {dag} depend on the previous run, and dates that have runs already would be skipped"
        yield RejectMessage(NOT_POSSIBLE, f"{reason}; {RUN_AGAIN}", "reprocess")


def _dates(backfill: BackfillView) -> str:
    """The field of the dates that were asked for."""
    return "start_date" if backfill.logical_dates is None else "logical_dates"


def _stray_date(backfill: BackfillView, graph: Graph) -> Iterator[RejectMessage]:
    """The first listed date that the timetable does not have. Its run would be none of the schedule."""
    anchor = anchor_of(graph.timetable, graph.bounds, backfill.start_date)
    stray = next((date for date in backfill.logical_dates or () if not is_date(graph.timetable, anchor, date)), None)
    if stray is not None:
        before, after = nearest_dates(graph.timetable, anchor, stray)
        near = " and ".join(f"{utc(at)} {where} it" for at, where in ((before, "before"), (after, "after")) if at)
        reason = f"{utc(stray)} is no date of DAG {graph.dag_id!r}: its timetable has {near}"
        yield RejectMessage(NO_DATES, f"{reason}; list one of these dates", "logical_dates")


def _not_replayable(backfill: BackfillView, graph: Graph) -> Iterator[RejectMessage]:
    dag = f"DAG {graph.dag_id!r}"
    if graph.schedule is None:
        yield RejectMessage(NO_DATES, f"{dag} has no timetable that gives a range of dates; list each date", "logical_dates")
    elif backfill.reprocess is Reprocess.NONE:
        reason = (
            f"datasets start the runs of {dag}: only its runs that were created in this time can run again, with their events"
        )
        yield RejectMessage(NOT_POSSIBLE, f"{reason}; {RUN_AGAIN}", "reprocess")
    elif backfill.is_reverse:
        reason = f"datasets start the runs of {dag}: they cannot run again in reverse order"
        yield RejectMessage(NOT_POSSIBLE, reason, "is_reverse")
