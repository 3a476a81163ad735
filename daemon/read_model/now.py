"""What needs attention now, what is at work, what comes next, and whether the scheduler is healthy."""

from collections.abc import Mapping, Sequence, Sized
from datetime import datetime, timedelta

import msgspec

from tidegate.daemon.read_model.backfill_reasons import why_failing
from tidegate.daemon.read_model.late import LateDatasets, read_late
from tidegate.daemon.read_model.stuck import StuckRun, read_stuck
from tidegate.daemon.settings import Settings
from tidegate.schemas.queries import dag_pages, dead_letters, deadlines, leases, losses, now, pools
from tidegate.schemas.queries.backfill_pages import BackfillRow, list_backfills
from tidegate.schemas.queries.counting import COUNTED
from tidegate.schemas.queries.dag_pages import ImportErrorRow
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.deadlines import MissedOfDag
from tidegate.schemas.queries.leases import Incident, JobRow
from tidegate.schemas.queries.losses import LossRow
from tidegate.schemas.queries.now import ActiveRun, Counts, DueDag, FailedRun, HeldDag

RECENT = timedelta(days=1)
SOON = timedelta(hours=1)
LISTED = 20


class FailingBackfill(msgspec.Struct, frozen=True):
    """A backfill that failed, or that has failed dates. `why` says how it goes on."""

    backfill: BackfillRow
    why: str

    @property
    def since(self) -> datetime:
        return self.backfill.run_end_date or self.backfill.updated_at


class NowPage(msgspec.Struct, frozen=True):
    """`missed` are deadlines missed within `RECENT`, once per DAG. `missing_pools` counts the tasks that wait for each pool that
    does not exist, `dead_letters` the open ones.

    `daemons`, `away` and `missing_pools` are whole; each other list has at most `LISTED` entries.
    """

    failed: Sequence[FailedRun]
    backfills: Sequence[FailingBackfill]
    held: Sequence[HeldDag]
    stuck: Sequence[StuckRun]
    late: LateDatasets
    missed: Sequence[MissedOfDag]
    import_errors: Sequence[ImportErrorRow]
    halted: Sequence[Incident]
    losses: Sequence[LossRow]
    daemons: Sequence[JobRow]
    at_work: Sequence[ActiveRun]
    due: Sequence[DueDag]
    missing_pools: Mapping[str, int]
    dead_letters: int
    counts: Counts
    is_empty: bool

    @property
    def problems(self) -> int:
        """How many entries need attention."""
        return sum(map(len, self._lists)) + (not self.daemons) + (self.dead_letters > 0)

    @property
    def has_more_problems(self) -> bool:
        """Whether a list is full, and may lack entries."""
        return any(len(entries) >= LISTED for entries in self._lists)

    @property
    def _lists(self) -> Sequence[Sized]:
        work = (self.failed, self.backfills, self.held, self.stuck, self.late.datasets, self.missed)
        return *work, self.import_errors, self.missing_pools, self.halted, self.losses, self.away

    @property
    def away(self) -> Sequence[tuple[JobRow, str]]:
        """The servers that daemons cannot reach."""
        return [(job, server) for job in self.daemons for server in job.away]


async def read_now(db: Db, settings: Settings) -> NowPage:
    """`settings` apply while no daemon is alive."""
    daemons = await leases.live(db)
    return NowPage(
        failed=await now.failed(db, RECENT.total_seconds(), LISTED),
        backfills=await _failing_backfills(db),
        held=await now.held(db, LISTED),
        stuck=await read_stuck(db, daemons, settings, LISTED),
        late=await read_late(db, LISTED),
        missed=await deadlines.missed_last(db, RECENT.total_seconds(), LISTED),
        import_errors=await dag_pages.list_import_errors(db, limit=LISTED),
        halted=await leases.incidents(db, limit=LISTED),
        losses=await losses.list_losses(db, settled=False, limit=LISTED),
        daemons=daemons,
        at_work=await now.at_work(db, LISTED),
        due=await now.due(db, SOON.total_seconds(), LISTED),
        missing_pools=await pools.missing(db),
        dead_letters=await dead_letters.count_open(db),
        counts=await now.counts(db, COUNTED),
        is_empty=not await dag_pages.list_dags(db, limit=1),
    )


async def _failing_backfills(db: Db) -> list[FailingBackfill]:
    """A success of another date makes no failed date good: they stay until a retry, or for `RECENT` after the end."""
    ids = await now.backfills(db, RECENT.total_seconds(), LISTED)
    return [FailingBackfill(row, why_failing(row)) for row in await list_backfills(db, ids=ids, limit=LISTED)]
