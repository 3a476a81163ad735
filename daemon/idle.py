"""Ends a daemon after a time, or when no daemon of the installation has running, due or pending work."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import anyio
import msgspec
import structlog

from tidegate.daemon.context import Context
from tidegate.daemon.dagfiles.watch import Scanner
from tidegate.daemon.duties.dag_folder import known_files
from tidegate.daemon.intake.batches import partition_of
from tidegate.daemon.settings import dags_root
from tidegate.events.source import OffsetOutOfRangeError, Partition, Source
from tidegate.schemas.error import TidegateError
from tidegate.schemas.queries import idle, runs
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.idle import OutstandingWork, ShortPool
from tidegate.schemas.text import counted
from tidegate.schemas.wire.event import INCOMING

log = structlog.get_logger()

READ_S = 0.2


class StillBusyError(TidegateError):
    """`duration_s` passed before the installation was idle."""


class ShortPoolsError(TidegateError):
    """The installation is idle, and tasks are left that wait for pools without the slots for them."""


class Until(msgspec.Struct, frozen=True):
    """When to end without a signal: after `duration_s`, when `idle`, or at the first of both."""

    duration_s: float | None = None
    idle: bool = False


FOR_EVER = Until()


async def wait_until_over(context: Context, until: Until, started: anyio.Event) -> None:
    """Wait until the daemon has to end. Raises StillBusyError if `until.idle` is not reached within `duration_s`.

    Raises ShortPoolsError if tasks are left that wait for pools. A daemon that has not `started` is not idle.
    """
    with anyio.move_on_after(until.duration_s):
        if until.idle:
            await started.wait()
            short = await until_idle(context)
            log.info("stopping", reason="idle")
            if short:
                raise ShortPoolsError(_left(short))
            return
        await anyio.sleep_forever()
    log.info("stopping", reason="the time is over", duration_s=until.duration_s)
    if until.idle:
        raise StillBusyError(
            f"the installation was not idle within {until.duration_s:g} s; `tidegate runs list` shows the runs in progress"
        )


async def until_idle(context: Context) -> Sequence[ShortPool]:
    """Return when the installation is idle; it is not during an outage. Warns of held DAGs, whose work is left.

    Returns the pools that tasks are left to wait for.
    Runs that wait for a run of another version are reconsidered first, because its end may have requested nothing.
    """
    is_requested = False
    while True:
        with context.outages.reporting():
            if await is_idle(context):
                if is_requested or not await context.database.autocommit(runs.reconsider_after_other_versions):
                    await _warn_of_held_dags(context)
                    return await context.database.autocommit(idle.short_pools)
                is_requested = True
        await anyio.sleep(context.settings.sweep_s)


async def _warn_of_held_dags(context: Context) -> None:
    """The exit code does not say that they have work."""
    if held := await context.database.autocommit(idle.held_dags):
        log.warning("dags_held", dags=held, hint=f"tidegate dags why-not {held[0]}")


def _left(pools: Sequence[ShortPool]) -> str:
    waits = "; ".join(
        f"{counted(it.tasks, 'task waits', 'tasks wait')} for pool {it.pool!r}, {_lack(it)}, such as of DAG {it.dag_id!r}"
        for it in pools
    )
    return f"nothing is left to do but this: {waits}; give the pool slots by `tidegate pools set {pools[0].pool} SLOTS`"


def _lack(it: ShortPool) -> str:
    return "which does not exist" if it.slots is None else f"which has {it.slots} of the {it.wanted} slots that one needs"


async def is_idle(context: Context) -> bool:
    """Whether there was no work, then no new file in the DAG folder of this host, and then still no work."""
    return await _nothing_to_do(context) and await _no_new_file(context) and await _nothing_to_do(context)


async def _nothing_to_do(context: Context) -> bool:
    """Whether the database has no work and all topics were read to their ends, at one moment."""
    positions, left = await context.database.run(_positions_and_outstanding_work)
    places = {place: offset for key, offset in positions.items() if (place := partition_of(key)) is not None}
    return not left and await _all_read(context, places)


async def _positions_and_outstanding_work(db: Db) -> tuple[Mapping[str, int], OutstandingWork]:
    return await idle.positions(db), await idle.outstanding_work(db)


async def _all_read(context: Context, positions: Mapping[Partition, int]) -> bool:
    """Whether these positions are the ends of all partitions of the topics."""
    settings = context.settings
    async with Source(settings.kafka_servers, security=settings.kafka_security) as source:
        known = await _have_leaders(source, map(settings.topic, INCOMING))
        if known.keys() - positions.keys() or not all(known.values()):
            return False
        source.assign({partition: positions[partition] for partition in known})
        try:
            if any((await source.fetch(READ_S, 1)).values()):
                return False
            lag = await source.lag()
            return lag.keys() == known.keys() and not any(lag.values())
        except OffsetOutOfRangeError:
            return False


async def _have_leaders(source: Source, topics: Iterable[str]) -> Mapping[Partition, bool]:
    return {Partition(topic, number): led for topic in topics for number, led in (await source.has_leader(topic)).items()}


async def _no_new_file(context: Context) -> bool:
    """Whether the database has the current content of all files of this host's DAG folder.

    A file that is to be parsed again counts as read once this daemon has seen a parse of it: the host may lack what it needs.
    """
    new: list[str] = []

    async def note(paths: Sequence[str]) -> None:
        new.extend(paths)

    is_complete = await Scanner(dags_root(context.settings), note, partial(known_files, context)).scan(absent_too=False)
    return is_complete and set(new) <= await context.database.autocommit(idle.parsed_in_vain, context.held_leases.job.id)
