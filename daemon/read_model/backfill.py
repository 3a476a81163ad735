"""A backfill as a page: its progress, its last dates, the DAGs of its cascade and the slots that it holds."""

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from tidegate.daemon.read_model.backfill_progress import MOST_COUNTED, Progress, read_progress
from tidegate.daemon.read_model.backfill_reasons import with_reasons
from tidegate.daemon.settings import Settings
from tidegate.handlers.backfills.rejections import no_such_backfill
from tidegate.schemas.error import NotFoundError
from tidegate.schemas.queries import backfill_pages, backfills
from tidegate.schemas.queries.backfill_pages import BackfillRow, DateRow, PoolShare, StageRow, list_backfills
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.pools import UNLIMITED
from tidegate.schemas.text import counted, utc

MAX_ID = 2**63 - 1
LAST_DATES = 20


class BackfillPage(msgspec.Struct, frozen=True):
    """A backfill with its progress and some of its planned dates. `stages`: the DAGs of a cascade, the first one at depth 0.

    `shares` say in which pools it may be in the way of others.
    """

    backfill: BackfillRow
    progress: Progress
    dates: list[DateRow]
    stages: list["Stage"]
    shares: Sequence[PoolShare] = ()


class Stage(msgspec.Struct, frozen=True):
    """A DAG of a cascade. `depth` counts the DAGs on the longest way from the first one to it."""

    depth: int
    row: StageRow


async def read_backfill_page(
    db: Db, backfill_id: int, settings: Settings, dates: Sequence[DateRow] | None = None
) -> BackfillPage:
    """The page with these of its dates; without them with the last ones. `settings` apply while no daemon is alive.

    Raises NotFoundError for an unknown backfill.
    """
    row = await read_backfill(db, backfill_id, deleted=True)
    if dates is None:
        dates = await backfill_pages.list_dates(db, backfill_id, None, max(row.dates - LAST_DATES, 0), LAST_DATES)
    return BackfillPage(
        row,
        await read_progress(db, row),
        await with_reasons(db, row, dates, settings),
        await _read_stages(db, row) if row.stages else [],
        await backfill_pages.list_shares(db, row.id, MOST_COUNTED),
    )


def dates_text(row: BackfillRow, at: Callable[[datetime], str] = utc) -> str:
    """`2013-01-01 00:00:00Z to 2013-01-05 00:00:00Z`, or `a list of 3`."""
    return f"{at(row.start_date)} to {at(row.end_date)}" if row.logical_dates is None else f"a list of {len(row.logical_dates)}"


def share_text(share: PoolShare) -> str:
    """`2 of 128 slots of default_pool; no other task waits there`."""
    total = None if share.slots == UNLIMITED else share.slots
    slots = counted(share.held, "slot", "slots") if total is None else f"{share.held} of {counted(total, 'slot', 'slots')}"
    waiting = counted(share.others, "task of another run waits", "tasks of other runs wait")
    return f"{slots} of {share.pool}; {waiting if share.others else 'no other task waits'} there"


async def _read_stages(db: Db, row: BackfillRow) -> list[Stage]:
    rows = await backfill_pages.list_stages(db, row.id)
    depths = {row.dag_id: 0}
    edges = await backfills.edges(db, row.dag_id)
    for dag_id in row.stages:
        depths[dag_id] = 1 + max(
            (depths[producer] for producer, consumer in edges if consumer == dag_id and producer in depths), default=0
        )
    return [Stage(depth, rows.get(dag_id) or StageRow(dag_id=dag_id)) for dag_id, depth in depths.items()]


async def read_backfill(db: Db, id_: int, *, deleted: bool = False) -> BackfillRow:
    """Raises NotFoundError for an unknown backfill, and for a deleted one unless `deleted` is given."""
    rows = await list_backfills(db, ids=[id_], deleted=deleted) if 0 < id_ <= MAX_ID else []
    if not rows:
        rejected = no_such_backfill(id_)
        raise NotFoundError(rejected.message, reason=rejected.reason)
    return rows[0]
