"""Leases: which duties this daemon owns. They are renewed, balanced by count, and released when the daemon stops.

A lease lasts while its owner is live. A renewal writes one row, that of the daemon, and locks no partition, so batches never wait
for it. A daemon claims the leases of owners whose heartbeat is older than their TTL; the epoch fences an owner that resumes.
A daemon whose last renewal is older than half the TTL stops reading, relaying and submitting.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import anyio
import structlog
from anyio.abc import TaskStatus

from tidegate.daemon.lease_balance import share
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries import leases, losses
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import Away, Duty, Job, Lease

log = structlog.get_logger()

NOBODY: Mapping[str, Away] = {}


class Holdings:
    """What we own. Leases only say who works: a daemon that wrongly believes to own something is fenced when it writes.

    `lives` counts how often we may have been taken for dead and were heard of again: what was claimed before is perhaps not ours.
    It is counted long before the time to live is over, for clocks do not go alike.
    Renewals, and the end of it all, take turns: one that came after the end would own everything again.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.alone = True
        self.after_loss = False
        self.lives = 0
        self.left = False
        self.turn = anyio.Lock()
        self._owned: dict[tuple[str, str], Lease] = {}
        self._renewed_at = float("-inf")
        self.version = 0

    @property
    def ttl_s(self) -> float:
        """How long after its last sign of life others take us for dead."""
        return self.job.terms.lease_ttl_s

    @property
    def fresh(self) -> bool:
        """Whether nobody can have taken us for dead: not half the time to live has passed since the last renewal began."""
        return anyio.current_time() <= self._renewed_at + self.ttl_s / 2

    def of(self, kind: str) -> Mapping[str, Lease]:
        """The leases of a kind by key; none once they are not fresh."""
        if not self.fresh:
            return {}
        return {lease.key: lease for lease in self._owned.values() if lease.kind == kind and not lease.halted}

    def replace(self, owned: Sequence[Lease], began_at: float) -> None:
        """`version` changes when it is not the same set under the same epochs."""
        if not self.fresh:
            self.lives += 1
        self._renewed_at = began_at
        before = {key: (lease.epoch, lease.halted) for key, lease in self._owned.items()}
        self._owned = {(lease.kind, lease.key): lease for lease in owned}
        if before != {key: (lease.epoch, lease.halted) for key, lease in self._owned.items()}:
            self.version += 1


class Renewed(NamedTuple):
    """What we own, how many daemons there are, and whether acknowledged commits were lost that nobody has seen to."""

    owned: list[Lease]
    daemons: int
    after_loss: bool


async def keep(
    database: Database, holdings: Holdings, renew_s: float, outages: Outages, *, task_status: TaskStatus[None]
) -> None:
    """Renew and rebalance every `renew_s`, for ever. Leaves everything behind when cancelled."""
    task_status.started()
    try:
        while True:
            with outages.reporting():
                await refresh(database, holdings, outages.away)
                outages.end("Postgres")
            await anyio.sleep(renew_s)
    finally:
        with anyio.move_on_after(5, shield=True):
            await leave(database, holdings)


async def refresh(database: Database, holdings: Holdings, away: Mapping[str, Away] = NOBODY) -> None:
    """One renewal, which says who is `away`; none once this daemon has left. Raises UnavailableError."""
    async with holdings.turn:
        if holdings.left:
            return
        began_at = anyio.current_time()
        owned, daemons, holdings.after_loss = await database.run(_renew, holdings.job, away)
        holdings.alone = daemons <= 1
        holdings.replace(owned, began_at)


async def offer(database: Database, duties: Sequence[Duty]) -> None:
    """Make duties known to all daemons. Raises UnavailableError."""
    await database.run(leases.offer, duties)


async def leave(database: Database, holdings: Holdings) -> None:
    """Release everything at once, for good; when Postgres is away the leases will expire by themselves."""
    async with holdings.turn:
        holdings.left = True
        try:
            await database.run(leases.leave, holdings.job.id)
        except UnavailableError as error:
            log.warning("leases_not_released", error=str(error))


async def _renew(db: Db, job: Job, away: Mapping[str, Away]) -> Renewed:
    db.mark()
    await leases.heartbeat(db, job, away)
    owned = await leases.owned(db, job.id)
    place = await leases.place(db, job.id)
    mine = share(owned, await leases.counts(db), place)
    if mine.surplus:
        await leases.release(db, job.id, mine.surplus)
    held = [lease for lease in owned if lease not in mine.surplus]
    for group, wanted in mine.wanted.items():
        if wanted > 0:
            held += await leases.claim(db, job.id, group, wanted)
    return Renewed(held, place.of, await losses.any_open(db))
