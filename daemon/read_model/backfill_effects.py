"""What an action or a change means for a backfill, in sentences for its form and for the answer of its command."""

from collections.abc import Iterator

import msgspec

from tidegate.daemon.read_model.backfill import read_backfill
from tidegate.daemon.read_model.backfill_progress import MOST_COUNTED
from tidegate.daemon.read_model.version import version_text
from tidegate.handlers.backfills.dates import is_replay, next_ticks
from tidegate.schemas.backfill import BackfillView
from tidegate.schemas.error import DagFaultError
from tidegate.schemas.graph import Graph
from tidegate.schemas.message import BackfillAction
from tidegate.schemas.queries import versions
from tidegate.schemas.queries.backfill_pages import BackfillRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.state import BackfillState
from tidegate.schemas.text import counted, utc


class ChangedBackfill(BackfillRow, frozen=True, kw_only=True):
    """A backfill after a change. `added_dates` None: the number is not known before they are planned."""

    added_dates: int | None = 0


async def read_changed(db: Db, before: BackfillRow) -> ChangedBackfill:
    """The backfill after a change, and how many dates that added."""
    after = await read_backfill(db, before.id)
    return ChangedBackfill(**msgspec.structs.asdict(after), added_dates=await _read_added(db, before, after))


async def _read_added(db: Db, before: BackfillRow, after: BackfillRow) -> int | None:
    if after.end_date == before.end_date:
        return 0
    try:
        graph = (await versions.graphs(db, {after.version_id}))[after.version_id]
    except DagFaultError:
        return None
    return added(before, msgspec.structs.replace(before, end_date=after.end_date, horizon=after.horizon), graph)


def added(before: BackfillView, after: BackfillView, graph: Graph) -> int | None:
    """How many more dates are not planned yet; None if there are too many to count, or only planning finds them."""
    few, more = (len(next_ticks(view, graph, MOST_COUNTED + 1)) for view in (before, after))
    return None if is_replay(after, graph) or more > MOST_COUNTED else more - few


def effects(action: BackfillAction, row: BackfillRow) -> list[str]:
    """What an action will do, with counts."""
    match action:
        case BackfillAction.PAUSE:
            return [f"It starts no more runs. {_going_on(row)}."]
        case BackfillAction.RESUME:
            queued = counted(row.queued, "queued run", "queued runs")
            return [f"Its runs start again, at most {row.max_active_runs} at once; {queued} first."]
        case BackfillAction.CANCEL:
            queued = counted(row.queued, "queued run fails", "queued runs fail")
            running = counted(row.running, "run is running", "runs are running")
            return [f"{queued}. {running}. Dates without a run get none."]
        case BackfillAction.RETRY:
            return list(_retried(row))
        case BackfillAction.DELETE:
            dates = counted(row.dates, "date", "dates")
            return [f"The backfill leaves the list, with the record of its {dates}. Their runs stay."]


def _going_on(row: BackfillRow) -> str:
    running = counted(row.running, "running run goes on", "running runs go on")
    return f"{running}, {counted(row.queued, 'queued one waits', 'queued ones wait')} until it is resumed"


def _retried(row: BackfillRow) -> Iterator[str]:
    failed = counted(row.failed, "failed date runs", "failed dates run")
    yield f"{failed} again: the failed tasks, and the tasks after these."
    if row.cancelled:
        yield f"{counted(row.cancelled, 'cancelled date runs', 'cancelled dates run')} again with all tasks."
    if row.stop_reason and not row.is_planned:
        yield "Then it plans the dates that are not planned yet."
    yield f"The runs have {version(row)}."
    if row.state is BackfillState.PAUSED:
        yield "It stays paused: no run starts until it is resumed."


def version(row: BackfillRow) -> str:
    """The version of its runs, and the newest one if that is another."""
    return version_text(row.dag_id, row.version, row.newest_version)


def not_due(backfill: BackfillView) -> str:
    """That dates of the future get no run; "" if the range has none."""
    if backfill.end_date <= backfill.horizon:
        return ""
    return f"dates that are not due by {utc(backfill.horizon)} get no run; `tidegate backfills set` adds them later"
