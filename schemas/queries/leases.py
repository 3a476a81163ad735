"""Leases: the owner of each partition and shard. Correctness depends on their epochs, never on their duration."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from tidegate.schemas.effect.audit import OF_PARTITION, object_name
from tidegate.schemas.error import FencedError
from tidegate.schemas.queries import audit_log
from tidegate.schemas.queries.db import Db, columns
from tidegate.schemas.queries.sql import combined, load

_SQL = load("leases")

PARTITION = "partition"
OUTBOX = "outbox"
CLOCK = "clock"


class Retention(msgspec.Struct, frozen=True):
    """For how many days a daemon keeps the ids of events, the months of the ledger, and logs of its host.

    0 is not known: the daemon is of a former version.
    """

    dedupe_days: int = 0
    ledger_days: int = 0
    spool_days: int = 0


class Group(NamedTuple):
    """Leases that daemons share evenly: those of a kind, or of the partitions of a topic."""

    kind: str
    topic: str


class Terms(msgspec.Struct, frozen=True):
    """The settings that the decisions of a daemon depend on, the `backends` that it serves, and what it keeps.

    It works with the leases of `groups`; without any it is of a former version, and claims those of all groups. `clusters` are
    the Spark clusters that its host knows, by backend; None for a former version, which claims tasks of every cluster.
    `signs`: it signs the events that it publishes, which a former version does not.
    """

    parallelism: int = 0
    fair_after_s: float = 60.0
    lease_ttl_s: float = 10.0
    backends: tuple[str, ...] = ()
    retention: Retention = Retention()
    groups: tuple[Group, ...] = ()
    clusters: Mapping[str, tuple[str, ...]] | None = None
    signs: bool = False


class Away(msgspec.Struct, frozen=True):
    """A server that a daemon cannot reach, or a duty of it that fails, with the start and the error of the outage."""

    since: datetime
    error: str


class Job(msgspec.Struct, frozen=True):
    """A daemon process."""

    id: UUID
    host: str
    pid: int
    version: str
    terms: Terms = Terms()


class JobRow(msgspec.Struct, frozen=True):
    """A live daemon."""

    host: str
    pid: int
    started_at: datetime
    heartbeat_at: datetime
    terms: Terms
    away: Mapping[str, Away]
    id: UUID


class DaemonRank(NamedTuple):
    """The rank of a daemon by age, from 0, among the `of` live daemons that share a group of leases."""

    number: int
    of: int


class Lease(msgspec.Struct, frozen=True):
    """A lease that a daemon owns. `next_offset` is set for partitions only; `epoch` fences earlier owners."""

    kind: str
    key: str
    epoch: int
    next_offset: int | None
    halted: bool

    @property
    def group(self) -> Group:
        return Group(self.kind, self.key.rpartition("/")[0])


class Standing(NamedTuple):
    """The number of live daemons, the number of leases in each group, and the rank of a daemon in each group that it shares.

    `has_open_loss`: a loss of commits is on record and not settled. `is_held`: the database was restored, and no daemon works
    with it. `owned` are the leases of the daemon.
    """

    daemons: int
    counts: Mapping[Group, int]
    ranks: Mapping[Group, DaemonRank]
    has_open_loss: bool
    is_held: bool
    owned: Sequence[Lease]


class LeaseSpec(msgspec.Struct, frozen=True):
    """A lease to create: of a partition or a shard. `next_offset`: the first offset of a new partition."""

    kind: str
    key: str
    next_offset: int | None = None


class Incident(msgspec.Struct, frozen=True):
    """A halted partition: its recorded offset is outside its log, or its records cannot be decoded. A user sets another one."""

    partition: str
    next_offset: int
    log_start: int
    log_end: int
    at: datetime | None = None


class StepOver(msgspec.Struct, frozen=True):
    """A step of a partition over its next record, at `offset`. `stood_at` is smaller where offsets have gaps."""

    partition: str
    stood_at: int
    offset: int
    next_offset: int


async def renew(db: Db, job: Job, away: Mapping[str, Away] = MappingProxyType({})) -> Standing:
    """Renew the daemon's row, and with it all its leases, by the clock of the server; and read its standing. One statement.

    Stores the servers it cannot reach. Writes the commit marker, unless it was claimed before.
    """
    writes = [*db.claim_marker(), (_SQL["heartbeat"], (*msgspec.structs.astuple(job), dict(away)))]
    parts = [*writes, (_SQL["standing"], (job.id, job.terms.groups))]
    sql = combined(tuple(sql for sql, _ in parts), tuple(len(args) for _, args in parts))
    ((daemons, shared, has_open_loss, is_held, held),) = await db.fetch(sql, *(arg for _, args in parts for arg in args))
    groups = {Group(row["kind"], row["topic"]): row for row in shared}
    counts = {group: row["count"] for group, row in groups.items()}
    ranks = {group: DaemonRank(row["number"], row["of"]) for group, row in groups.items() if row["is_shared"]}
    return Standing(daemons, counts, ranks, has_open_loss, is_held, [_known(db, **row) for row in held])


def _known(db: Db, *, ctid: str, **facts: Any) -> Lease:
    """Stores the ctid of an unknown row only: a concurrent batch may have stored a newer one of another."""
    lease = Lease(**facts)
    if lease.kind == PARTITION:
        db.memory.lease_ctids.setdefault(lease.key, ctid)
    return lease


async def live(db: Db) -> list[JobRow]:
    """The live daemons, oldest first."""
    return [msgspec.convert(dict(row), JobRow) for row in await db.fetch(_SQL["live"])]


async def create_leases(db: Db, specs: Sequence[LeaseSpec]) -> None:
    """Create leases. Existing ones keep their owner and offset."""
    if specs:
        await db.execute(_SQL["create_leases"], *columns(specs))


async def claim(db: Db, owner: UUID, wanted: Mapping[Group, int]) -> list[Lease]:
    """Claim leases that have no live owner: of each group at most the wanted number."""
    kinds, topics = zip(*wanted, strict=True)
    return [Lease(*row) for row in await db.fetch(_SQL["claim"], owner, kinds, topics, list(wanted.values()))]


async def release(db: Db, owner: UUID, leases: Sequence[Lease]) -> None:
    """Release leases, so that other daemons can claim them before they expire."""
    await db.execute(_SQL["release"], owner, [lease.kind for lease in leases], [lease.key for lease in leases])


async def signed_from(db: Db, keys: Sequence[str]) -> dict[str, int | None]:
    """From which offset on the events of tasks are signed, by the key of each partition that has a lease."""
    return {row[0]: row[1] for row in await db.fetch(_SQL["signed_from"], keys)}


async def sign_from(db: Db, offsets: Mapping[str, int]) -> None:
    """The events of tasks in these partitions are signed from these offsets on, where they are not yet.

    Nothing changes while a daemon lives that does not sign.
    """
    await db.execute(_SQL["sign_from"], *zip(*sorted(offsets.items()), strict=True))


async def leave(db: Db, owner: UUID) -> None:
    """Release all leases and delete the daemon's row."""
    await db.execute(_SQL["release_all"], owner)
    await db.execute(_SQL["leave"], owner)


async def forget_dead(db: Db, silent_s: float) -> None:
    """Delete daemons without a heartbeat for `silent_s`."""
    await db.execute(_SQL["forget_dead"], silent_s)


async def halt(db: Db, owner: UUID, incident: Incident) -> None:
    """Halt an owned partition, and record the incident. Raises FencedError if it is not owned, or at a later offset by now."""
    facts = (incident.next_offset, incident.log_start, incident.log_end)
    if not await db.fetch(_SQL["halt"], incident.partition, owner, *facts):
        raise FencedError(incident.partition)


async def incidents(db: Db, *, after: str | None = None, limit: int | None = None) -> list[Incident]:
    """The halted partitions by name, those after one."""
    return [Incident(*row) for row in await db.fetch(_SQL["incidents"], after, limit)]


async def lock_halted(db: Db, incident: Incident) -> bool:
    """Lock a partition. False if it was resumed from this halt; it may have halted again."""
    await db.execute(_SQL["lock_partition"], incident.partition)
    return bool(await db.fetch(_SQL["is_halted"], incident.partition, incident.next_offset, incident.at))


async def resume(db: Db, incident: Incident, next_offset: int, who: str) -> bool:
    """Resume a partition from this halt at `next_offset`, and write the audit log.

    False if it was resumed since; it may have halted again.
    """
    await db.execute(_SQL["lock_partition"], incident.partition)
    if not await db.fetch(_SQL["resume"], incident.partition, incident.next_offset, incident.at, next_offset):
        return False
    name = object_name(OF_PARTITION, partition=incident.partition)
    facts = {"stood_at": incident.next_offset, "log_start": incident.log_start, "log_end": incident.log_end}
    await audit_log.record(db, who, "resumed a partition", name, {**facts, "next_offset": next_offset})
    return True


async def step_over(db: Db, step: StepOver, who: str, because: str) -> bool:
    """Move a partition behind its next record, and write the audit log. False if it has moved since."""
    if not await db.fetch(_SQL["step_over"], step.partition, step.stood_at, step.next_offset):
        return False
    facts = {"offset": step.offset, "next_offset": step.next_offset, "because": because}
    await audit_log.record(db, who, "stepped over a record", object_name(OF_PARTITION, partition=step.partition), facts)
    return True
