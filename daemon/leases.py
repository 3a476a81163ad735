"""Leases: which partitions and shards this daemon owns. They are renewed, balanced by count, and released when the daemon stops.

A lease lasts while its owner is live. A renewal writes one row, that of the daemon, and locks no partition, so batches never wait
for it. A daemon claims the leases of owners whose heartbeat is older than their TTL; the epoch fences an owner that resumes.
A daemon whose last renewal is older than half the TTL stops reading, relaying and submitting.
"""

import re
from collections.abc import Mapping, Sequence

import anyio
import structlog
from anyio.abc import TaskStatus

from tidegate.daemon.lease_balance import share
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database
from tidegate.schemas.error import POSTGRES, UnavailableError
from tidegate.schemas.queries import leases
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import Away, Group, Job, Lease, LeaseSpec, Standing

log = structlog.get_logger()

RELEASE_S = 5.0
"""After this time the release is not tried again. A transaction that has begun ends by its own deadline."""

NOT_RENEWED = "this daemon did not renew its leases in time"

NO_OUTAGE: Mapping[str, Away] = {}


class HeldLeases:
    """The leases this daemon holds. They only decide which daemon works: writes under a lost lease are fenced in Postgres.

    `lease_generation` grows at each renewal after which other daemons may have taken over. Claims of an earlier generation may
    be lost. It grows at half the time to live already, because clocks run at different speeds.
    `lock` orders renewals and the release: a renewal after the release would acquire the leases again.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.is_only_daemon = True
        self.has_open_loss = False
        self.lease_generation = 0
        self.released = False
        self.lock = anyio.Lock()
        self._leases: dict[tuple[str, str], Lease] = {}
        self._renewed_at = float("-inf")

    @property
    def ttl_s(self) -> float:
        """Time after the last renewal until other daemons take over."""
        return self.job.terms.lease_ttl_s

    @property
    def fresh(self) -> bool:
        """Whether the last renewal began less than half the time to live ago, so that no daemon has taken over."""
        return anyio.current_time() <= self._renewed_at + self.ttl_s / 2

    def of(self, kind: str) -> Mapping[str, Lease]:
        """The leases of a kind by key, without halted ones; none when the leases are not fresh."""
        if not self.fresh:
            return {}
        return {lease.key: lease for lease in self._leases.values() if lease.kind == kind and not lease.halted}

    def shards(self, kind: str) -> Mapping[int, int]:
        """The epochs of the leases of a kind by shard. A key that another program wrote and that is no number is left out."""
        return {int(key): lease.epoch for key, lease in self.of(kind).items() if re.fullmatch("0|[1-9][0-9]{0,3}", key)}

    def update(self, owned: Sequence[Lease], began_at: float) -> None:
        """Store the result of a renewal that began at `began_at`."""
        if not self.fresh:
            self.lease_generation += 1
        self._renewed_at = began_at
        self._leases = {(lease.kind, lease.key): lease for lease in owned}


async def renew_leases(
    database: Database, held_leases: HeldLeases, renew_s: float, outages: Outages, *, task_status: TaskStatus[None]
) -> None:
    """Renew and rebalance every `renew_s`, until cancelled; then release all leases. A failure releases none: it is repeated."""
    task_status.started()
    try:
        while True:
            with outages.reporting():
                await renew(database, held_leases, outages.away)
                outages.end(POSTGRES)
            await anyio.sleep(renew_s)
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(RELEASE_S, shield=True):
            await release(database, held_leases)
        raise


async def renew(database: Database, held_leases: HeldLeases, away: Mapping[str, Away] = NO_OUTAGE) -> None:
    """Renew once and record the servers that are `away`; do nothing after the release. Raises UnavailableError."""
    async with held_leases.lock:
        if not held_leases.released:
            await _renew(database, held_leases, away)


async def register(database: Database, specs: Sequence[LeaseSpec]) -> None:
    """Create leases for the daemons to share. Raises UnavailableError."""
    await database.run(leases.create_leases, specs)


async def release(database: Database, held_leases: HeldLeases) -> None:
    """Release all leases for good; when Postgres does not answer they expire."""
    async with held_leases.lock:
        held_leases.released = True
        try:
            await database.run(leases.leave, held_leases.job.id)
        except UnavailableError as error:
            log.warning("leases_not_released", error=str(error))


async def _renew(database: Database, held_leases: HeldLeases, away: Mapping[str, Away]) -> None:
    began_at = anyio.current_time()
    standing = await database.autocommit(leases.renew, held_leases.job, away)
    if standing.is_held:
        await database.reconnect()
    owned = await _balanced(database, held_leases.job, standing)
    held_leases.has_open_loss = standing.has_open_loss
    held_leases.is_only_daemon = standing.daemons <= 1
    held_leases.update(owned, began_at)


async def _balanced(database: Database, job: Job, standing: Standing) -> Sequence[Lease]:
    """What the daemon owns after it has released and claimed what its share says. Others may have changed meanwhile."""
    mine = share(standing.owned, standing.counts, standing.ranks)
    wanted = {group: number for group, number in mine.wanted.items() if number > 0}
    if not (mine.surplus or wanted):
        return standing.owned
    claimed = await database.run(_change, job, mine.surplus, wanted)
    return [*(lease for lease in standing.owned if lease not in mine.surplus), *claimed]


async def _change(db: Db, job: Job, surplus: Sequence[Lease], wanted: Mapping[Group, int]) -> Sequence[Lease]:
    await db.mark()
    if surplus:
        await leases.release(db, job.id, surplus)
    return await leases.claim(db, job.id, wanted) if wanted else []
