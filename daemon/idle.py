"""Ends a daemon after a time, or when no daemon of the installation has running, due or pending work."""

from collections.abc import Mapping, Sequence
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
from tidegate.schemas.queries import idle
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.idle import OutstandingWork
from tidegate.schemas.wire.event import INCOMING

log = structlog.get_logger()

READ_S = 0.2


class StillBusyError(TidegateError):
    """`duration_s` passed before the installation was idle."""


class Until(msgspec.Struct, frozen=True):
    """When to end without a signal: after `duration_s`, when `idle`, or at the first of both."""

    duration_s: float | None = None
    idle: bool = False


FOR_EVER = Until()


async def done(context: Context, until: Until, started: anyio.Event) -> None:
    """Wait until the daemon has to end. Raises StillBusyError if `until.idle` is not reached within `duration_s`.

    A daemon that has not `started` is not idle.
    """
    with anyio.move_on_after(until.duration_s):
        if until.idle:
            await started.wait()
            await until_idle(context)
            log.info("stopping", reason="idle")
            return
        await anyio.sleep_forever()
    log.info("stopping", reason="the time is over", duration_s=until.duration_s)
    if until.idle:
        raise StillBusyError(
            f"the installation was not idle within {until.duration_s:g} s; `tidegate runs list` shows the runs in progress"
        )


async def until_idle(context: Context) -> None:
    """Return when the installation is idle; it is not during an outage."""
    while True:
        with context.outages.reporting():
            if await is_idle(context):
                return
        await anyio.sleep(context.settings.sweep_s)


async def is_idle(context: Context) -> bool:
    """Whether there was no work, then no new file in the DAG folder of this host, and then still no work."""
    return await _nothing_to_do(context) and await _no_new_file(context) and await _nothing_to_do(context)


async def _nothing_to_do(context: Context) -> bool:
    """Whether the database has no work and all topics were read to their ends, at one moment."""
    positions, left = await context.database.run(_positions_and_outstanding_work)
    return not left and await _all_read(context, {partition_of(key): offset for key, offset in positions.items()})


async def _positions_and_outstanding_work(db: Db) -> tuple[Mapping[str, int], OutstandingWork]:
    return await idle.positions(db), await idle.outstanding_work(db)


async def _all_read(context: Context, positions: Mapping[Partition, int]) -> bool:
    """Whether these positions are the ends of all partitions of the topics."""
    settings = context.settings
    async with Source(settings.kafka_servers, security=settings.kafka_security) as source:
        for topic in map(settings.topic, INCOMING):
            if {Partition(topic, number) for number in await source.partitions_of(topic)} - positions.keys():
                return False
        source.assign(positions)
        try:
            return not any((await source.fetch(READ_S, 1)).values()) and not any((await source.lag()).values())
        except OffsetOutOfRangeError:
            return False


async def _no_new_file(context: Context) -> bool:
    """Whether the database has the current content of all files of this host's DAG folder."""
    new: list[str] = []

    async def note(paths: Sequence[str]) -> None:
        new.extend(paths)

    return await Scanner(dags_root(context.settings), note, partial(known_files, context)).scan(absent_too=False) and not new
