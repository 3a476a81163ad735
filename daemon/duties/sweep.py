"""Sweep: ends silent and stuck attempts, deletes expired rows and files, warns of missing pools and long transactions."""

from functools import partial

import anyio
import structlog
from anyio import to_thread
from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.duties.ledger import maintain_ledger
from tidegate.daemon.outage import Retry
from tidegate.daemon.postgres import commit_markers
from tidegate.daemon.settings import spool_root
from tidegate.daemon.spark import spool
from tidegate.schemas.message import AttemptSilent, AttemptStuck
from tidegate.schemas.queries import inbox, leases, long_transactions, losses, pools, submissions

log = structlog.get_logger()

MAX_BATCH = 10_000
PRUNE_EVERY_S = 3600.0
DAY_S = 86_400.0
JOB_RETENTION_S = 3600.0
"""The time for which the row of a dead daemon is stored."""

LONG_TRANSACTION_S = 60.0
"""Far above the deadline of our own transactions."""


async def sweep(context: Context, *, task_status: TaskStatus[None]) -> None:
    """Sweep, for ever. Starts after two heartbeat periods, so that runners can report first after an outage."""
    sweeper, retry = Sweeper(context), Retry(context.outages)
    task_status.started()
    await anyio.sleep(context.settings.runner_heartbeat_s * 2)
    while True:
        await retry.once(sweeper.round)
        await anyio.sleep(context.settings.runner_silent_s / 10)


class Sweeper:
    """Sweeps in rounds. Its state is the logged warnings and the time of the next prune."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._prune_at = float("-inf")
        self._missing_pools: frozenset[str] = frozenset()
        self._open_transactions: frozenset[str] = frozenset()

    async def round(self) -> None:
        context = self._context
        await fail_silent_attempts(context)
        await requeue_stuck_attempts(context)
        await delete_expired(context)
        self._missing_pools = await warn_of_missing_pools(context, self._missing_pools)
        self._open_transactions = await warn_of_open_transactions(context, self._open_transactions)
        if anyio.current_time() >= self._prune_at:
            await prune(context)
            await maintain_ledger(context.database, context.settings.ledger_days)
            await context.database.autocommit(losses.forget_marks, commit_markers.RETENTION_S)
            self._prune_at = anyio.current_time() + PRUNE_EVERY_S


async def fail_silent_attempts(context: Context) -> None:
    """Fail attempts without a heartbeat for `runner_silent_s`. The handler checks again under the run's lock."""
    silent_s = context.settings.runner_silent_s
    silent = await context.database.autocommit(submissions.silent, silent_s)
    if silent:
        log.warning("attempts_silent", count=len(silent), silent_s=silent_s)
        await context.submit_messages([AttemptSilent(submission_id=id_, silent_s=silent_s) for id_ in silent])


async def requeue_stuck_attempts(context: Context) -> None:
    """Requeue attempts that wait for a submit longer than `queued_timeout_s`. The handler checks again under the run's lock."""
    queued_s = context.settings.queued_timeout_s
    stuck = await context.database.autocommit(submissions.stuck, queued_s)
    if stuck:
        log.warning("attempts_not_submitted", count=len(stuck), queued_s=queued_s)
        await context.submit_messages([AttemptStuck(submission_id=id_) for id_ in stuck])


async def delete_expired(context: Context) -> None:
    """Delete event ids after `dedupe_days`, rows of dead daemons, and spent commit markers."""
    while await context.database.autocommit(inbox.forget, context.settings.dedupe_days, MAX_BATCH) == MAX_BATCH:
        pass
    await context.database.autocommit(leases.forget_dead, JOB_RETENTION_S)
    await commit_markers.delete_spent(context.database)


async def warn_of_missing_pools(context: Context, logged: frozenset[str]) -> frozenset[str]:
    """Warn once of each pool that tasks wait for and that does not exist. Returns the missing pools."""
    current = await context.database.autocommit(pools.missing)
    for name, waiting in current.items():
        if name not in logged:
            log.warning("pool_missing", pool=name, tasks=waiting, hint=f"tidegate pools set {name} SLOTS")
    return frozenset(current)


async def warn_of_open_transactions(context: Context, logged: frozenset[str]) -> frozenset[str]:
    """Warn once of each long transaction, which delays vacuum and the low watermarks. Returns the open ones."""
    current = await context.database.autocommit(long_transactions.open_for, seconds=LONG_TRANSACTION_S)
    for row in current:
        if row.id not in logged:
            facts = {"role": row.role, "application": row.application, "address": row.address}
            log.warning("transaction_open_for_long", id=row.id, seconds=round(row.seconds), **facts)
    return frozenset(row.id for row in current)


async def prune(context: Context) -> None:
    """Delete old directories of this host's spool, in a thread, except those of attempts that are open in Postgres."""
    settings = context.settings
    began = await context.database.autocommit(submissions.open_on_host, context.held_leases.job.host)
    remove = partial(spool.prune, spool_root(settings), settings.spool_days * DAY_S, began)
    try:
        removed = await to_thread.run_sync(remove, abandon_on_cancel=True)
    except OSError as error:
        log.warning("spool_not_pruned", error=str(error))
        return
    if removed:
        log.info("spool_pruned", submissions=removed)
