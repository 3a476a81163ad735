"""Sweep: ends silent and stuck attempts, deletes expired rows and files, warns of missing pools and long transactions."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import anyio
import structlog
from anyio import to_thread
from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.duties.ledger import maintain_ledger
from tidegate.daemon.fault_log import RepeatedFaults
from tidegate.daemon.outage import Retry
from tidegate.daemon.postgres import commit_markers
from tidegate.daemon.settings import spool_root
from tidegate.daemon.spark import spool
from tidegate.schemas.error import FATAL, UnavailableError, described
from tidegate.schemas.message import AttemptSilent, AttemptStuck, BackfillLagging
from tidegate.schemas.queries import backfills, inbox, leases, long_transactions, losses, pools, submissions

log = structlog.get_logger()

MAX_BATCH = 10_000
PRUNE_EVERY_S = 3600.0
DAY_S = 86_400.0
JOB_RETENTION_S = 3600.0
"""The time for which the row of a dead daemon is stored."""

LONGEST_PAUSE_S = 30.0
"""Between two rounds."""

LONG_TRANSACTION_S = 60.0
"""Far above the deadline of our own transactions."""


async def sweep(context: Context, *, task_status: TaskStatus[None]) -> None:
    """Sweep, for ever. Starts after two heartbeat periods, so that runners can report first after an outage."""
    sweeper, retry = Sweeper(context), Retry(context.outages)
    task_status.started()
    await anyio.sleep(context.settings.runner_heartbeat_s * 2)
    while True:
        await retry.once(sweeper.round)
        await anyio.sleep(min(context.settings.runner_silent_s / 10, LONGEST_PAUSE_S))


Step = Callable[[Context], Awaitable[None]]


class Sweeper:
    """Sweeps in rounds. Its state is the logged warnings and faults, and the times of the steps of each hour."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._due: dict[str, float] = {}
        self._faults = RepeatedFaults("sweep_failed")
        self._missing_pools: frozenset[str] = frozenset()
        self._open_transactions: frozenset[str] = frozenset()

    async def round(self) -> None:
        """All steps that are due. A step that fails delays no other. Raises the first UnavailableError after the last step."""
        lost = [await self._try(step) for step in self._each_round()]
        for step in self._each_hour():
            lost.append(error := await self._try(step))
            if error is None:
                self._due[step.__name__] = anyio.current_time() + PRUNE_EVERY_S
        if error := next(filter(None, lost), None):
            raise error

    def _each_round(self) -> Sequence[Step]:
        deletes = (delete_expired, delete_dead_daemons, delete_spent_markers)
        warnings = (self._warn_of_missing_pools, self._warn_of_open_transactions)
        return (fail_silent_attempts, requeue_stuck_attempts, end_strays, count_lagging_backfills, *deletes, *warnings)

    def _each_hour(self) -> Sequence[Step]:
        now = anyio.current_time()
        return [step for step in (prune, maintain_months, delete_old_markers) if now >= self._due.get(step.__name__, now)]

    async def _try(self, step: Step) -> UnavailableError | None:
        """One try of a step. After a fault of its own the daemon is degraded until the step works."""
        try:
            await step(self._context)
        except UnavailableError as error:
            return error
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - any fault of a step concerns this step alone
            self._faults.report(step.__name__, error, step=step.__name__)
            self._context.outages.begin_failure(f"sweep {step.__name__}", described(error))
        else:
            self._faults.end(step.__name__)
            self._context.outages.end_failure(f"sweep {step.__name__}")
        return None

    async def _warn_of_missing_pools(self, context: Context) -> None:
        self._missing_pools = await warn_of_missing_pools(context, self._missing_pools)

    async def _warn_of_open_transactions(self, context: Context) -> None:
        self._open_transactions = await warn_of_open_transactions(context, self._open_transactions)


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


async def end_strays(context: Context) -> None:
    """Kill what runs on this host for attempts that have ended, such as one that was lost while the host was cut off."""
    if context.in_doubt:
        return  # A commit that is lost may be found again.
    for backend in context.backends.values():
        running = await backend.running()
        open_ = await context.database.autocommit(submissions.open_among, running.keys()) if running else frozenset()
        strays = {id_: handle for id_, handle in running.items() if id_ not in open_}
        for submission_id, handle in strays.items():
            log.warning("stray_killed", submission_id=str(submission_id), backend=backend.name)
            await backend.kill(handle)
        if strays:
            await backend.status(strays)  # ends the processes of a runner that had to be killed by force


async def count_lagging_backfills(context: Context) -> None:
    """Notify backfills of runs that daemons of a former version ended or reopened. The handler checks again under the lock."""
    lagging = await context.database.autocommit(backfills.lagging)
    if lagging:
        log.info("backfills_lagging", backfills=lagging)
        await context.submit_messages([BackfillLagging(backfill_id=id_) for id_ in lagging])


async def delete_expired(context: Context) -> None:
    """Delete event ids after `dedupe_days`."""
    while await context.database.autocommit(inbox.forget, context.settings.dedupe_days, MAX_BATCH) == MAX_BATCH:
        pass


async def delete_dead_daemons(context: Context) -> None:
    """Delete the rows of dead daemons after `JOB_RETENTION_S`."""
    await context.database.autocommit(leases.forget_dead, JOB_RETENTION_S)


async def delete_spent_markers(context: Context) -> None:
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


async def maintain_months(context: Context) -> None:
    """Begin and retire the months of the ledger."""
    await maintain_ledger(context.database, context.settings.ledger_days)


async def delete_old_markers(context: Context) -> None:
    await context.database.autocommit(losses.forget_marks, commit_markers.RETENTION_S)
