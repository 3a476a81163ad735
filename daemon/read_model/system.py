"""The installation: daemons, duties, halted partitions, losses, the relay, the schema; and what is wrong with it."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from tidegate.daemon.postgres.migrate import known
from tidegate.daemon.read_model.clusters import ServerOutage, outages_of
from tidegate.schemas.queries import inbox, leases, losses, pools, system_pages
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.inbox import IgnoredRow
from tidegate.schemas.queries.leases import Incident
from tidegate.schemas.queries.losses import LossRow
from tidegate.schemas.queries.system_pages import DaemonLine, DutyLine, MigrationLine, RelayLine, ServerLine, TableLine
from tidegate.schemas.timetable.text import age, utc

LATE = timedelta(minutes=1)
"""An event that waits longer to be published is a problem."""


class System(msgspec.Struct, frozen=True, kw_only=True):
    """The installation. `problems` say what is wrong and what to do; `losses` are open ones.

    `missing` are the migrations of this version that the database lacks. `missing_pools` counts the tasks that wait for each
    pool that does not exist.
    """

    now: datetime
    daemons: Sequence[DaemonLine]
    outages: Sequence[ServerOutage] = ()
    duties: Sequence[DutyLine] = ()
    halted: Sequence[Incident] = ()
    losses: Sequence[LossRow] = ()
    relay: RelayLine = RelayLine(0, None)
    ignored: Sequence[IgnoredRow] = ()
    missing_pools: Mapping[str, int] = {}
    missing: Sequence[str] = ()
    migrations: Sequence[MigrationLine] = ()
    server: ServerLine
    tables: Sequence[TableLine] = ()
    problems: Sequence[str] = ()


async def read_system(db: Db) -> System:
    applied = await system_pages.migrations(db)
    system = System(
        now=db.now,
        daemons=await system_pages.daemons(db),
        outages=outages_of(await leases.live(db)),
        duties=await system_pages.duties(db),
        halted=await leases.incidents(db),
        losses=await losses.list_losses(db, settled=False),
        relay=await system_pages.relay(db),
        ignored=await inbox.ignored(db),
        missing_pools=await pools.missing(db),
        missing=[name for name in known() if name not in {migration.name for migration in applied}],
        migrations=applied,
        server=await system_pages.server(db),
        tables=await system_pages.tables(db),
    )
    return msgspec.structs.replace(system, problems=list(problems(system)))


def problems(system: System) -> Iterator[str]:
    """What is wrong, and what to do; nothing for a healthy installation."""
    if system.missing:
        yield f"the database schema lacks {', '.join(system.missing)}; update it with `tidegate migrate`"
    yield from _of_daemons(system)
    for outage in system.outages:
        yield f"{outage.server} is away for {outage.host} (pid {outage.pid}) since {utc(outage.away.since)}: {outage.away.error}"
    for incident in system.halted:
        range_ = f"its next offset {incident.next_offset} is outside its log of {incident.log_start} to {incident.log_end}"
        yield f"{incident.partition} is not read: {range_}; `tidegate topics resume` continues it"
    for loss in system.losses:
        lost = f"Postgres has lost commits of {utc(loss.since)} to {utc(loss.until)}"
        yield f"{lost}; check that time, then `tidegate losses settle {loss.id}`"
    for pool, tasks in system.missing_pools.items():
        wait = f"{tasks} {'task waits' if tasks == 1 else 'tasks wait'} for the pool {pool!r}, which does not exist"
        yield f"{wait}; `tidegate pools set {shlex.quote(pool)} SLOTS` creates it"
    if system.relay.since is not None and system.now - system.relay.since > LATE:
        yield f"an event waits for {age(system.relay.since, system.now)} to be published; see whether Kafka is away"


def _of_daemons(system: System) -> Iterator[str]:
    if not system.daemons:
        yield "no daemon is alive: nothing starts until one does; start one with `tidegate daemon`"
        return
    if len(versions := sorted({daemon.version for daemon in system.daemons})) > 1:
        yield f"daemons of the versions {', '.join(versions)} are alive: end the upgrade"
    if alone := sum(duty.number - duty.owned - duty.halted for duty in system.duties):
        duties, have = ("duty", "has") if alone == 1 else ("duties", "have")
        yield f"{alone} {duties} {have} no daemon: one takes over within seconds, or its log says why not"
