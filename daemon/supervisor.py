"""Supervisor: starts the duties, keeps each of them up, and stops all on a signal.

A duty stops by cancellation only. Work that must not be interrupted is shielded, with a deadline.
"""

import gc
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from uuid import uuid4

import anyio
import structlog
import uvloop
from anyio.abc import TaskGroup, TaskStatus

from tidegate.daemon.build import build
from tidegate.daemon.context import Context
from tidegate.daemon.dagfiles.parse import Parser, open_parser
from tidegate.daemon.duties.admit import admit
from tidegate.daemon.duties.clock import clock
from tidegate.daemon.duties.clock import leases as clock_leases
from tidegate.daemon.duties.dag_folder import publish_changes
from tidegate.daemon.duties.dispatch import dispatch
from tidegate.daemon.duties.notify import notify
from tidegate.daemon.duties.observe import observe
from tidegate.daemon.duties.parse_files import FileParsing
from tidegate.daemon.duties.reconsider import reconsider
from tidegate.daemon.duties.relay import leases as relay_leases
from tidegate.daemon.duties.relay import relay
from tidegate.daemon.duties.sweep import sweep
from tidegate.daemon.idle import FOR_EVER, Until, wait_until_over
from tidegate.daemon.intake.former_offsets import refuse_emptied
from tidegate.daemon.intake.ingest import ingest, unchanged
from tidegate.daemon.leases import HeldLeases, register, renew_leases
from tidegate.daemon.metrics.daemon import serve_metrics
from tidegate.daemon.outage import Outages, Retry
from tidegate.daemon.postgres.commit_loss import CommitLossDetector
from tidegate.daemon.postgres.commit_markers import check_ended_daemons
from tidegate.daemon.postgres.commit_receipts import CommitReceipts
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.postgres.migrate import SchemaError, pending
from tidegate.daemon.restart import Duty, all_set, begin
from tidegate.daemon.settings import Settings, spool_root
from tidegate.daemon.spark.contract import Backend
from tidegate.daemon.spark.host import host_of, open_spools
from tidegate.daemon.spark.runner_backend import open_backends
from tidegate.daemon.systemd import Systemd
from tidegate.daemon.wake import Signals, listen, notify_peers
from tidegate.schemas.cluster import clusters_of_backends
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import CLOCK, OUTBOX, PARTITION, Group, Job, Retention, Terms
from tidegate.schemas.wire.event import INCOMING, Kind

log = structlog.get_logger()

GC_THRESHOLD = 100_000
"""Allocations between two collections of the youngest generation."""

DUTIES: Sequence[Duty] = (admit, dispatch, relay, notify, reconsider, clock, publish_changes)

START_S = 10.0
"""How long a start waits for duties that it needs first, and to report that all have started."""


def main(settings: Settings, until: Until = FOR_EVER) -> None:
    """Run until a signal, or as `until` says.

    Raises TidegateError, alone or in a group, for a problem that the user can fix, and the errors of `FATAL` in a group.
    """
    open_spools(settings)
    # Batches allocate thousands of objects without cycles: collect seldom.
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 100)
    anyio.run(partial(run, settings, until), backend_options={"loop_factory": uvloop.new_event_loop})


async def run(settings: Settings, until: Until) -> None:
    """One daemon, until the first SIGINT or SIGTERM, or as `until` says. The second signal has its default action: kill."""
    systemd = Systemd()
    async with AsyncExitStack() as stack:
        parser = await stack.enter_async_context(open_parser(settings))
        backends = open_backends(settings)
        job = Job(uuid4(), host_of(settings), os.getpid(), build(), terms(settings, backends))
        name = f"{job.host} (pid {job.pid})"
        commit_loss = CommitLossDetector(CommitReceipts(job.id, spool_root(settings)), name)
        pool = connect(
            settings.postgres_dsn,
            connections=settings.pool_connections,
            author=job.id,
            writer=name,
            commit_loss=commit_loss,
            run_events=settings.run_events,
        )
        database = await stack.enter_async_context(pool)
        context = Context(
            settings=settings,
            database=database,
            held_leases=HeldLeases(job),
            signals=Signals(),
            outages=Outages(lambda away: systemd.say(STATUS=status(away)), database.clock.known),
            backends=backends,
        )
        async with anyio.create_task_group() as tg:
            tg.start_soon(systemd.watchdog)
            begin(tg, context.outages, "serve_metrics", partial(serve_metrics, context))
            started = anyio.Event()
            tg.start_soon(_start, tg, context, parser, systemd, started)
            await _end(context, until, started)
            systemd.say(STOPPING=1)
            tg.cancel_scope.cancel()
    log.info("stopped", job=str(job.id))


def terms(settings: Settings, backends: Mapping[str, Backend]) -> Terms:
    """The settings of this daemon that other daemons and commands read."""
    retention = Retention(settings.dedupe_days, settings.ledger_days, settings.spool_days)
    return Terms(
        settings.parallelism,
        settings.fair_after_s,
        settings.lease_ttl_s,
        tuple(backends),
        retention,
        lease_groups(settings),
        clusters_of_backends(settings.clusters),
        signs=True,
    )


def lease_groups(settings: Settings) -> tuple[Group, ...]:
    """The leases that the duties of this version work with."""
    return Group(CLOCK, ""), Group(OUTBOX, ""), *(Group(PARTITION, settings.topic(kind)) for kind in INCOMING)


def status(away: frozenset[str]) -> str:
    """The status line of `systemctl status`."""
    return f"degraded: waiting for {', '.join(sorted(away))}" if away else "running"


async def _start(tg: TaskGroup, context: Context, parser: Parser, systemd: Systemd, started: anyio.Event) -> None:
    """The daemon is ready for systemd when it knows that it can work with the database; until then it extends its start."""
    async with anyio.create_task_group() as waiting:
        waiting.start_soon(systemd.extend_start)
        await prepare_database(context)
        waiting.cancel_scope.cancel()
    systemd.say(READY=1, STATUS="starting")
    await Retry(context.outages, ends_outages=True).until_done(refuse_emptied, context)
    await _start_duties(tg, context, parser)
    systemd.say(STATUS="running")
    started.set()
    log.info("started", job=str(context.held_leases.job.id), host=context.held_leases.job.host, pid=os.getpid())


async def _start_duties(tg: TaskGroup, context: Context, parser: Parser) -> None:
    """Leases first, wake-ups next, then all other duties. A duty that does not start delays the others by `START_S` at most."""
    settings, begun = context.settings, partial(begin, tg, context.outages)
    renew = partial(renew_leases, context.database, context.held_leases, settings.lease_renew_s, context.outages)
    await all_set([begun("renew_leases", renew)], START_S)
    wakeups = (partial(listen, settings.postgres_dsn), partial(notify_peers, context.database, context.held_leases))
    await all_set([begun(each.func.__name__, partial(each, context.signals)) for each in wakeups], START_S)
    observed = begun("observe", partial(observe, context))
    begun("sweep", partial(sweep_after, observed, context))
    duties = [begun(duty.__name__, partial(duty, context)) for duty in DUTIES]
    parsing = FileParsing(context, parser, tg)
    enrich = {Kind.DAG_FILE_CHANGED: parsing.parse, Kind.DATASET_UPDATED: unchanged, Kind.TASK_FINISHED: unchanged}
    intake = [begun(f"ingest {kind}", partial(ingest, kind, context, enrich=how)) for kind, how in enrich.items()]
    await all_set([observed, *duties, *intake, begun("report_late", parsing.report_late)], START_S)


async def sweep_after(observed: anyio.Event, context: Context, *, task_status: TaskStatus[None]) -> None:
    """Sweep after the first round of the observer, which records the heartbeats of this host, or after `runner_silent_s`."""
    await all_set([observed], context.settings.runner_silent_s)
    await sweep(context, task_status=task_status)


async def prepare_database(context: Context) -> None:
    """Wait for Postgres, check its schema and the commits of ended daemons, create the leases. Raises SchemaError."""
    database, retry = context.database, Retry(context.outages, ends_outages=True)
    if missing := await retry.until_done(database.run, _pending):
        raise SchemaError(f"the database lacks migration {missing[0]}; run `tidegate migrate`")
    await retry.until_done(check_ended_daemons, database, spool_root(context.settings), context.held_leases.job.host)
    await retry.until_done(database.reconnect)  # what ended daemons lack may hold the database
    await retry.until_done(register, database, [*relay_leases(), *clock_leases()])


async def _pending(db: Db) -> list[str]:
    return await pending(db.connection)


async def _end(context: Context, until: Until, started: anyio.Event) -> None:
    """Return on a signal, or when `until` says so. Raises StillBusyError."""
    async with anyio.create_task_group() as tg:

        async def first(wait: Callable[[], Awaitable[None]]) -> None:
            await wait()
            tg.cancel_scope.cancel()

        tg.start_soon(first, stop_signal)
        tg.start_soon(first, partial(wait_until_over, context, until, started))


async def stop_signal() -> None:
    """Return on the first SIGINT or SIGTERM; the next one has its default action."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for received in signals:
            log.info("stopping", signal=received.name)
            return
