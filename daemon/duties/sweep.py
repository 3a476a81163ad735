"""The slow truth behind the wake-ups: attempts nobody hears of, and what is old enough to be forgotten."""

from functools import partial

import anyio
import structlog
from anyio import to_thread
from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.duties.ledger import keep
from tidegate.daemon.postgres import commit_markers
from tidegate.daemon.retry import Retry
from tidegate.daemon.settings import spool_root
from tidegate.daemon.spark import spool
from tidegate.schemas.message import AttemptSilent, AttemptStuck
from tidegate.schemas.queries import held, inbox, leases, losses, pools, submissions

log = structlog.get_logger()

FORGET_AT_ONCE = 10_000
PRUNE_EVERY_S = 3600.0
DAY_S = 86_400.0
GONE_S = 3600.0
"""How long the record of a daemon that died is kept."""

HELD_S = 60.0
"""No transaction of ours lasts that long."""


async def sweep(context: Context, *, task_status: TaskStatus[None]) -> None:
    """For ever, with the first look after the time that an attempt may be silent: whoever was away gets to speak first."""
    sweeper, retry = Sweeper(context), Retry(context.outages)
    task_status.started()
    await anyio.sleep(context.settings.runner_heartbeat_s * 2)
    while True:
        await retry.once(sweeper.round)
        await anyio.sleep(context.settings.runner_silent_s / 10)


class Sweeper:
    """Remembers between rounds what was logged already, and when the old is pruned next."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._prune_at = float("-inf")
        self._missing_pools: frozenset[str] = frozenset()
        self._open_transactions: frozenset[str] = frozenset()

    async def round(self) -> None:
        context = self._context
        await lapse(context)
        await requeue(context)
        await forget(context)
        self._missing_pools = await warn_of_missing_pools(context, self._missing_pools)
        self._open_transactions = await warn_of_open_transactions(context, self._open_transactions)
        if anyio.current_time() >= self._prune_at:
            await prune(context)
            await keep(context.database, context.settings.ledger_days)
            await context.database.ask(losses.forget_marks, commit_markers.RETENTION_S)
            self._prune_at = anyio.current_time() + PRUNE_EVERY_S


async def lapse(context: Context) -> None:
    """Take the silent for dead; looked at once more under the lock."""
    silent_s = context.settings.runner_silent_s
    silent = await context.database.ask(submissions.silent, silent_s)
    if silent:
        log.warning("attempts_silent", count=len(silent), silent_s=silent_s)
        await context.submit_messages([AttemptSilent(submission_id=id_, silent_s=silent_s) for id_ in silent])


async def requeue(context: Context) -> None:
    """See to what has been queued for too long; looked at once more under the lock."""
    queued_s = context.settings.queued_timeout_s
    stuck = await context.database.ask(submissions.stuck, queued_s)
    if stuck:
        log.warning("attempts_not_submitted", count=len(stuck), queued_s=queued_s)
        await context.submit_messages([AttemptStuck(submission_id=id_) for id_ in stuck])


async def forget(context: Context) -> None:
    """Drop event ids that no redelivery can bring back, daemons long gone, and what vouches for nothing any more."""
    while await context.database.ask(inbox.forget, context.settings.dedupe_days, FORGET_AT_ONCE) == FORGET_AT_ONCE:
        pass
    await context.database.ask(leases.forget_dead, GONE_S)
    await commit_markers.delete_spent(context.database)


async def warn_of_missing_pools(context: Context, said: frozenset[str]) -> frozenset[str]:
    """Tasks that wait for a pool that nobody made wait for ever: said once for each. Returns those that are missing."""
    found = await context.database.ask(pools.missing)
    for name, waiting in found.items():
        if name not in said:
            log.warning("pool_missing", pool=name, tasks=waiting, hint=f"tidegate pools set {name} SLOTS")
    return frozenset(found)


async def warn_of_open_transactions(context: Context, said: frozenset[str]) -> frozenset[str]:
    """While somebody has a transaction open everything gets slower: said once for each. Returns those that are open."""
    found = await context.database.ask(held.held, seconds=HELD_S)
    for row in found:
        if row.id not in said:
            facts = {"role": row.role, "application": row.application, "address": row.address}
            log.warning("transaction_open_for_long", id=row.id, seconds=round(row.seconds), **facts)
    return frozenset(row.id for row in found)


async def prune(context: Context) -> None:
    """Remove the old directories of this host's spool, in a thread. One whose end the database has yet to hear of is kept."""
    settings = context.settings
    began = await context.database.ask(submissions.open_at, context.held_leases.job.host)
    remove = partial(spool.prune, spool_root(settings), settings.spool_days * DAY_S, began)
    try:
        removed = await to_thread.run_sync(remove, abandon_on_cancel=True)
    except OSError as error:
        log.warning("spool_not_pruned", error=str(error))
        return
    if removed:
        log.info("spool_pruned", submissions=removed)
