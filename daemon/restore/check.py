"""What Kafka, the spool of this host and the receipts have that a restored database lacks.

Slow to import: a Kafka client.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from uuid import UUID

import anyio
import msgspec

from tidegate.daemon.intake.batches import key_of
from tidegate.daemon.intake.former_offsets import note_from, open_source
from tidegate.daemon.postgres.commit_receipts import abandoned
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.restore.log_reading import bounds_of, records, starts_at
from tidegate.daemon.settings import Settings, spool_root
from tidegate.daemon.spark.process import alive
from tidegate.daemon.spark.regular_file import DamagedError
from tidegate.daemon.spark.spool import Spool, spools
from tidegate.events.offsets import Stored
from tidegate.events.source import Bounds, Record, Source
from tidegate.schemas.error import RejectedError
from tidegate.schemas.queries import idle, installation, losses
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.installation import Installation
from tidegate.schemas.text import counted
from tidegate.schemas.wire.envelope import decode_state
from tidegate.schemas.wire.event import INCOMING, Kind, StateChanged, TaskStateChanged

Say = Callable[[str], None]

RUNS_AT_ONCE = 5_000


class UnreadPartition(msgspec.Struct, frozen=True):
    """A partition whose records the database lacks.

    `next_offset`: where the database stands; None if it does not know the partition. `read_to`: how far daemons have read it by
    what they stored in Kafka, and `read_by` the installation that did. `unread` records are in its log behind `next_offset`,
    `expired` ones are no longer in it.
    """

    partition: str
    next_offset: int | None
    read_to: int | None
    read_by: str
    log_start: int
    log_end: int
    unread: int
    expired: int


class LostRun(msgspec.Struct, frozen=True):
    """A run that the topic of run states has and the database lacks."""

    dag_id: str
    run_id: str
    state: str
    at: datetime


class RunTask(msgspec.Struct, frozen=True):
    """A task that changed its state after the newest commit of the database. `is_known`: the database has its run."""

    dag_id: str
    run_id: str
    task: str
    try_number: int
    state: str
    at: datetime
    is_known: bool


class HostAttempt(msgspec.Struct, frozen=True):
    """An attempt in the spool of this host that the database does not know: `running`, how it ended, or `unclaimed`."""

    submission_id: UUID
    state: str


class RestoreCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What a restored or emptied database lacks.

    `home` is where the database is now. `lost_since`: the newest commit that it has; None if it has none. `acknowledged_until`:
    the newest commit of which this host has a receipt. `ids_ahead`: the greatest transaction id that the cluster has not given
    out; 0 without one. `open_attempts`: how many attempts have not ended, as the database knows.
    """

    installation: Installation
    home: str
    lost_since: datetime | None
    acknowledged_until: datetime | None
    ids_ahead: int
    open_attempts: int
    partitions: Sequence[UnreadPartition]
    runs: Sequence[LostRun]
    tasks: Sequence[RunTask]
    on_host: Sequence[HostAttempt]

    def facts(self) -> Iterator[str]:
        """What the database lacks, in sentences."""
        unread = Counter[str]()
        for each in self.partitions:
            unread[each.partition.rpartition("/")[0]] += each.unread
        for topic, number in unread.items():
            yield f"{counted(number, 'record', 'records')} of {topic} that the database has not read"
        yield f"{counted(len(self.runs), 'run', 'runs')} in the topic of run states that the database lacks"
        known = sum(task.is_known for task in self.tasks)
        yield f"{counted(known, 'task', 'tasks')} of runs that the database has changed state after its newest commit"
        yield f"{counted(len(self.tasks) - known, 'task', 'tasks')} of runs that it lacks may have run"
        yield f"{counted(self.open_attempts, 'attempt', 'attempts')} that had not ended when the backup was made"
        yield f"{counted(len(self.on_host), 'attempt', 'attempts')} in the spool of this host that the database does not know"


async def read_check(database: Database, settings: Settings, say: Say = lambda _: None) -> RestoreCheck:
    """Compare the database with the topics and with the spool of this host. Raises UnavailableError."""
    root = spool_root(settings)
    found, home, since, ahead, open_, known = await database.run(_facts)
    say("reading the topics")
    async with open_source(settings) as source:
        partitions = [row for kind in INCOMING for row in await _partitions(source, settings.topic(kind), known)]
        runs, tasks = await _states(database, source, settings, since)
    say("reading the spool of this host")
    attempts = await anyio.to_thread.run_sync(attempts_on_host, root)
    there = await database.run(installation.known_attempts, attempts.keys())
    return RestoreCheck(
        installation=found,
        home=home,
        lost_since=since,
        acknowledged_until=newest_receipt(root, found),
        ids_ahead=ahead,
        open_attempts=open_,
        partitions=partitions,
        runs=runs,
        tasks=tasks,
        on_host=[HostAttempt(id_, state) for id_, state in attempts.items() if id_ not in there],
    )


async def _facts(db: Db) -> tuple[Installation, str, datetime | None, int, int, Mapping[str, int]]:
    found, home = await installation.found(db), (await losses.server_identity(db.connection)).database
    since = found.lost_since or await installation.newest_commit(db.connection)
    return found, home, since, await installation.ids_ahead(db), await installation.open_attempts(db), await idle.positions(db)


async def _partitions(source: Source, topic: str, known: Mapping[str, int]) -> list[UnreadPartition]:
    bounds = await bounds_of(source, topic)
    stored = await source.committed(bounds.keys()) if bounds else {}
    return [_unread(key_of(p), known.get(key_of(p)), log, stored.get(p)) for p, log in bounds.items()]


def _unread(partition: str, next_offset: int | None, log: Bounds, stored: Stored | None) -> UnreadPartition:
    note = note_from(stored.note) if stored is not None else None
    return UnreadPartition(
        partition=partition,
        next_offset=next_offset,
        read_to=stored.offset if stored is not None else None,
        read_by=note.installation if note is not None else "",
        log_start=log.start,
        log_end=log.end,
        unread=log.end - max(next_offset or 0, log.start),
        expired=max(0, log.start - next_offset) if next_offset is not None else 0,
    )


async def _states(
    database: Database, source: Source, settings: Settings, since: datetime | None
) -> tuple[list[LostRun], list[RunTask]]:
    """The runs and tasks whose states were published after the newest commit of the database."""
    runs = {(it.dag_id, it.run_id): it for it in await _newest(source, settings, Kind.DAG_RUN_STATE, since)}
    events = [it for it in await _newest(source, settings, Kind.TASK_STATE, since) if isinstance(it, TaskStateChanged)]
    tasks = {(it.dag_id, it.run_id, it.label): it for it in events}
    wanted = sorted({*runs, *((task.dag_id, task.run_id) for task in tasks.values())})
    known: set[tuple[str, str]] = set()
    for start in range(0, len(wanted), RUNS_AT_ONCE):
        known |= await database.run(installation.known_runs, wanted[start : start + RUNS_AT_ONCE])
    return (
        [LostRun(run.dag_id, run.run_id, run.state, run.at) for key, run in sorted(runs.items()) if key not in known],
        [
            RunTask(it.dag_id, it.run_id, it.label, it.try_number, it.state, it.at, (it.dag_id, it.run_id) in known)
            for _, it in sorted(tasks.items())
            if it.try_number > 0
        ],
    )


async def _newest(source: Source, settings: Settings, kind: Kind, since: datetime | None) -> list[StateChanged]:
    bounds = await bounds_of(source, settings.topic(kind))
    starts = await starts_at(source, bounds, since)
    found: list[StateChanged] = []
    async for part in records(source, starts, bounds):
        found += filter(None, (_decoded(kind, record) for record in part))
    return [event for event in found if since is None or event.at > since]


def _decoded(kind: Kind, record: Record) -> StateChanged | None:
    try:
        return decode_state(kind, record.headers, record.value)
    except RejectedError:
        return None


def attempts_on_host(root: Path) -> Mapping[UUID, str]:
    """The attempts in the spool of this host, with what became of them."""
    return {spool.submission_id: _state_of(spool) for spool in spools(root)}


def _state_of(spool: Spool) -> str:
    try:
        if (outcome := spool.outcome()) is not None:
            return outcome.outcome
        claim = spool.claimed()
    except (DamagedError, OSError):
        return "damaged"
    if claim is None:
        return "unclaimed"
    return "running" if alive(claim.claimant) else "killed"


def newest_receipt(root: Path, here: Installation) -> datetime | None:
    """The newest commit of which an ended daemon of this host has a receipt, since the last restore."""
    with closing(abandoned(root)) as files:
        return max(
            (
                receipt.at
                for _, stored, _ in files
                if stored is not None and stored.database == here.epoch
                for receipt in stored.receipts
            ),
            default=None,
        )
