"""The installation: daemons, leases, halted partitions, losses, the relay, the schema; and what is wrong with it."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from tidegate.daemon.postgres.migrate import known
from tidegate.daemon.read_model.audit_log import problems_of_newest
from tidegate.daemon.read_model.clusters import ServerOutage, outages_of
from tidegate.daemon.read_model.lookup import broken_files
from tidegate.daemon.read_model.retention import Retained, retained
from tidegate.schemas.explain.remedy import EndTransaction
from tidegate.schemas.queries import (
    dag_pages,
    dead_letters,
    holds,
    inbox,
    installation,
    leases,
    losses,
    pools,
    row_holders,
    system_pages,
)
from tidegate.schemas.queries.counting import counted_to_bound, tasks_wait
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.holds import HeldDag
from tidegate.schemas.queries.inbox import IgnoredRow
from tidegate.schemas.queries.installation import Installation
from tidegate.schemas.queries.leases import Incident
from tidegate.schemas.queries.losses import LossRow
from tidegate.schemas.queries.pools import NarrowPool
from tidegate.schemas.queries.row_holders import MAX_DAGS, RowHolder
from tidegate.schemas.queries.system_pages import (
    DaemonLine,
    LeaseLine,
    MigrationLine,
    RelayLine,
    ServerLine,
    TableLine,
    UnconfirmedKill,
    UnknownCluster,
)
from tidegate.schemas.text import age, counted, utc

UNCONFIRMED_S, UNCONFIRMED = 86_400.0, 20
"""How long a kill that no cluster has confirmed is a problem, and how many of them are read."""

HELD = 20
"""How many held DAGs are read."""

LATE = timedelta(minutes=1)
"""An event that waits longer to be published is a problem."""


class System(msgspec.Struct, frozen=True, kw_only=True):
    """The installation. `problems` say what is wrong and what to do; `losses` are open ones.

    `missing` are the migrations of this version that the database lacks. `missing_pools` counts the tasks that wait for each
    pool that does not exist; `narrow_pools` have fewer slots than a task that waits for them needs. `held_dags` are the first
    held ones. `unknown_clusters` are the Spark clusters that tasks wait for and no host knows. `broken_files`
    counts the DAG files that cannot be parsed, `dead_letters` the open ones. `installation` is None for a schema without it.
    `unconfirmed` are kills of the last day that no cluster has confirmed. `row_holders` are sessions of Postgres that hold rows
    for long. `changed_entries` say what is wrong with the newest entries of the audit log. `verdict` is all of it in a line.
    """

    now: datetime
    daemons: Sequence[DaemonLine]
    outages: Sequence[ServerOutage] = ()
    leases: Sequence[LeaseLine] = ()
    halted: Sequence[Incident] = ()
    losses: Sequence[LossRow] = ()
    retention: Sequence[Retained] = ()
    relay: RelayLine = RelayLine(0, None)
    ignored: Sequence[IgnoredRow] = ()
    missing_pools: Mapping[str, int] = {}
    narrow_pools: Sequence[NarrowPool] = ()
    held_dags: Sequence[HeldDag] = ()
    unknown_clusters: Sequence[UnknownCluster] = ()
    broken_files: int = 0
    dead_letters: int = 0
    installation: Installation | None = None
    unconfirmed: Sequence[UnconfirmedKill] = ()
    row_holders: Sequence[RowHolder] = ()
    changed_entries: Sequence[str] = ()
    missing: Sequence[str] = ()
    migrations: Sequence[MigrationLine] = ()
    server: ServerLine
    tables: Sequence[TableLine] = ()
    problems: Sequence[str] = ()
    verdict: str = ""


async def read_system(db: Db) -> System:
    applied, daemons = await system_pages.migrations(db), await system_pages.daemons(db)
    system = System(
        now=db.now,
        daemons=daemons,
        outages=outages_of(daemons),
        leases=await system_pages.leases(db),
        halted=await leases.incidents(db),
        losses=await losses.list_losses(db, settled=False),
        retention=retained(daemons, await system_pages.months(db)),
        relay=await system_pages.relay(db),
        ignored=await inbox.ignored(db),
        missing_pools=await pools.missing(db),
        narrow_pools=await pools.narrow(db),
        held_dags=await holds.held_dags(db, HELD),
        unknown_clusters=await system_pages.unknown_clusters(db),
        broken_files=await dag_pages.count_import_errors(db),
        dead_letters=await dead_letters.count_open(db),
        installation=await installation.read(db.connection),
        unconfirmed=await system_pages.unconfirmed(db, UNCONFIRMED_S, UNCONFIRMED),
        row_holders=await row_holders.sessions(db),
        changed_entries=await problems_of_newest(db),
        missing=[name for name in known() if name not in {migration.name for migration in applied}],
        migrations=applied,
        server=await system_pages.server(db),
        tables=await system_pages.tables(db),
    )
    found = list(problems(system))
    return msgspec.structs.replace(system, problems=found, verdict=verdict(system, len(found)))


def verdict(system: System, problems: int) -> str:
    """`1 problem: 2 daemons are alive; all 60 leases have one; 0 events wait to be published; 2 dead letters are open`."""
    return f"{headline(problems)}: {'; '.join(facts(system))}"


def headline(problems: int) -> str:
    """The beginning of the verdict."""
    return counted(problems, "problem", "problems") if problems else "all well"


def facts(system: System) -> list[str]:
    """What the installation is doing, whether that is a problem or not."""
    number, owned = (sum(counts) for counts in zip((0, 0), *((each.number, each.owned) for each in system.leases), strict=True))
    found = (
        counted(len(system.daemons), "daemon is alive", "daemons are alive"),
        f"{f'all {number}' if owned == number else f'{owned} of {number}'} leases have one" if number else "",
        f"{counted_to_bound(system.relay.events, 'event waits', 'events wait')} to be published",
        _open_letters(system.dead_letters) if system.dead_letters else "no dead letter is open",
    )
    return [*filter(None, found)]


def resume_command(incident: Incident) -> str:
    """How to read the partition again."""
    return f"tidegate topics resume {shlex.quote(incident.partition)} --at OFFSET"


def settle_command(loss: LossRow) -> str:
    """How to say that the loss is dealt with."""
    return f"tidegate losses settle {loss.id} --because TEXT"


def problems(system: System) -> Iterator[str]:
    """The problems, and what to do about each; none for a healthy installation."""
    if system.missing:
        yield f"the database schema lacks {', '.join(system.missing)}; update it with `tidegate migrate`"
    yield from _of_restore(system.installation)
    yield from _of_daemons(system)
    for outage in system.outages:
        where = f"{outage.server} is out of service for {outage.host} (pid {outage.pid})"
        yield f"{where} since {utc(outage.away.since)}: {outage.away.error}"
    for incident in system.halted:
        yield f"{incident.partition} is not read: {_cause(incident)}; `{resume_command(incident)}` continues it"
    for loss in system.losses:
        lost = f"Postgres has lost commits of {utc(loss.since)} to {utc(loss.until)}"
        yield f"{lost}; check that time, then `{settle_command(loss)}`"
    yield from _of_tasks(system)
    if system.changed_entries:
        yield f"the audit log was changed: {system.changed_entries[0]}; `tidegate audit verify` says what else"
    yield from _of_input(system)


def _of_restore(found: Installation | None) -> Iterator[str]:
    if found is not None and found.held_since is not None:
        yield f"no daemon works with the database: {found.hold_reason}; `tidegate restore check` shows what it lacks"
    elif found is not None and found.home and not found.files_are_read:
        yield "dataset events wait: no daemon has read every file of the DAG folder yet; the log of one says why, if this lasts"


def _of_tasks(system: System) -> Iterator[str]:
    """The problems of tasks that wait for what does not exist, or may go on after a kill."""
    for pool, tasks in system.missing_pools.items():
        wait = f"{tasks_wait(tasks)} for the pool {pool!r}, which does not exist"
        yield f"{wait}; `tidegate pools set {shlex.quote(pool)} SLOTS` creates it"
    for narrow in system.narrow_pools:
        slots = f"{counted(narrow.slots, 'slot', 'slots')} in all, and one of them needs {narrow.wanted}"
        widen = f"`tidegate pools set {shlex.quote(narrow.name)} {narrow.wanted}` lets them go on"
        yield f"{tasks_wait(narrow.tasks)} for the pool {narrow.name!r}, which has {slots}; {widen}"
    for unknown in system.unknown_clusters:
        wait = f"{tasks_wait(unknown.tasks)} for the {unknown.address} of cluster {unknown.cluster!r}, which no host knows"
        yield f"{wait}; add it to TIDEGATE_SPARK_CLUSTERS of a host, and restart its daemon"
    for kill in system.unconfirmed:
        task = kill.task_id if kill.map_index is None else f"{kill.task_id}[{kill.map_index}]"
        yield f"task {task} of {kill.dag_id} {kill.run_id} may go on: {kill.reason}; look there, and end it"
    for holder in system.row_holders:
        rows = f"rows of {', '.join(holder.tables)}{f', of DAG {_names(holder.dags)}' if holder.dags else ''}"
        yield f"a session holds {rows}, and what needs them waits: {holder.text}; {EndTransaction(holder.pid).text}"


def _names(dags: Sequence[str]) -> str:
    return f"{', '.join(dags)}{' and maybe others' if len(dags) == MAX_DAGS else ''}"


def _of_input(system: System) -> Iterator[str]:
    """The problems of DAG files, DAGs and events."""
    if broken := broken_files(system.broken_files):
        yield broken
    for held in system.held_dags:
        release = f"correct it, then `tidegate dags release {shlex.quote(held.dag_id)}`"
        yield f"DAG {held.dag_id!r} is held since {utc(held.since)}, so that its runs wait: {held.reason}; {release}"
    if system.dead_letters:
        yield f"{_open_letters(system.dead_letters)}: records that could not be handled; `tidegate deadletters list` says why"
    if system.relay.since is not None and system.now - system.relay.since > LATE:
        waits = f"an event waits for {age(system.relay.since, system.now)} to be published"
        yield f"{waits}: Kafka is away, or it is damaged, see `outbox_row_unreadable` in the log of a daemon"


def _open_letters(number: int) -> str:
    return counted_to_bound(number, "dead letter is open", "dead letters are open")


def _cause(incident: Incident) -> str:
    if incident.log_start <= incident.next_offset < incident.log_end:
        return f"the records at its next offset {incident.next_offset} cannot be decoded, see `partition_halted` in the log"
    return f"its next offset {incident.next_offset} is outside its log of {incident.log_start} to {incident.log_end}"


def _of_daemons(system: System) -> Iterator[str]:
    if not system.daemons:
        yield "no daemon is alive: nothing starts until one does; start one with `tidegate daemon`"
        return
    if len(versions := sorted({daemon.version for daemon in system.daemons})) > 1:
        yield f"daemons of the versions {', '.join(versions)} are alive: end the upgrade"
    if alone := sum(lease.number - lease.owned - lease.halted for lease in system.leases):
        yield f"{counted(alone, 'lease has', 'leases have')} no daemon: one takes over within seconds, or its log says why not"
