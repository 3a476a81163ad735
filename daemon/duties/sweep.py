"""Sweep: ends silent and stuck attempts, deletes expired rows and files, warns of missing pools and long transactions.

It also wakes what no message woke: lagging backfills, and runs that wait for a run of another version.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

import anyio
import structlog
from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.duties.expired_ids import ExpiredIds
from tidegate.daemon.duties.ledger import maintain_ledger
from tidegate.daemon.duties.observe import KILLS_AT_ONCE
from tidegate.daemon.duties.spent_letters import expire_dead_letters, shrink_dead_letters
from tidegate.daemon.fault_log import LoggedStates
from tidegate.daemon.outage import Retry
from tidegate.daemon.postgres import commit_markers
from tidegate.daemon.restart import DutyFailures, first_of
from tidegate.daemon.settings import spool_root
from tidegate.daemon.spark import spool
from tidegate.daemon.spark.contract import Backend, Handle
from tidegate.daemon.spark.spool_threads import SpoolThreads
from tidegate.schemas.error import FATAL, UnavailableError
from tidegate.schemas.message import AttemptSilent, AttemptStuck, AttemptUnreachable, BackfillLagging
from tidegate.schemas.queries import backfill_dates, leases, long_transactions, losses, pools, runs, submissions
from tidegate.schemas.queries.db import Db

log = structlog.get_logger()

MINUTE_S = 60.0
HOUR_S = 3600.0
DAY_S = 86_400.0
JOB_RETENTION_S = 3600.0
"""The time for which the row of a dead daemon is stored."""

LONGEST_PAUSE_S = 30.0
"""Between two rounds."""

MOST_APART = timedelta(days=1)
"""More than the clocks of two hosts differ unless one is wrong. What is dropped by the clock waits then."""

LONG_TRANSACTION_S = 60.0
"""Far above the deadline of our own transactions."""


async def sweep(context: Context, *, task_status: TaskStatus[None]) -> None:
    """Sweep, for ever. Starts after two heartbeat periods, so that runners can report first after an outage."""
    sweeper, retry = Sweeper(context), Retry(context.outages, ends_outages=True)
    task_status.started()
    await anyio.sleep(context.settings.runner_heartbeat_s * 2)
    while True:
        await retry.once(sweeper.round)
        await anyio.sleep(min(context.settings.runner_silent_s / 10, LONGEST_PAUSE_S))


Step = Callable[[Context], Awaitable[None]]


class Sweeper:
    """Sweeps in rounds. Its state: silent attempts, logged warnings and failures, the times of rarer steps, and the place in the
    table of ids.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._due: dict[str, float] = {}
        self._failures = DutyFailures(context.outages, "sweep_failed", prefix="sweep ")
        self._expired_ids = ExpiredIds()
        self._silent_attempts = SilentAttempts()
        self._unreachable_attempts = UnreachableAttempts()
        self._warnings = Warnings()
        self._pruner = Pruner(context)

    async def round(self) -> None:
        """All steps that are due. A step that fails delays no other. Raises the first UnavailableError after the last step."""
        lost = [await self._try(step) for step in self._each_round()]
        for step, period_s in self._rarer():
            lost.append(error := await self._try(step))
            if error is None:
                self._due[step.__name__] = anyio.current_time() + period_s
        if error := next(filter(None, lost), None):
            raise error

    def _each_round(self) -> Sequence[Step]:
        deletes = (self._delete_expired_ids, delete_dead_daemons, delete_spent_markers)
        warnings = (self._warnings.warn_of_missing_pools, self._warnings.warn_of_open_transactions)
        requeues = (self._unreachable_attempts.requeue_unreachable_attempts, requeue_stuck_attempts)
        ends = (self._silent_attempts.fail_silent_attempts, end_strays)
        return (*requeues, *ends, count_lagging_backfills, *deletes, *warnings)

    def _rarer(self) -> Sequence[tuple[Step, float]]:
        """The steps that are not in each round, if they are due, with their periods in seconds."""
        now = anyio.current_time()
        steps = (
            *((step, MINUTE_S) for step in (reconsider_waiting_runs, shrink_dead_letters)),
            *((step, HOUR_S) for step in (self._pruner.prune, maintain_months, delete_old_dead_letters, delete_old_markers)),
        )
        return [(step, period_s) for step, period_s in steps if now >= self._due.get(step.__name__, now)]

    async def _try(self, step: Step) -> UnavailableError | None:
        """One try of a step. After a fault of its own the daemon is degraded until the step works."""
        lost: UnavailableError | None = None
        try:
            await step(self._context)
        except* FATAL:
            raise
        except* UnavailableError as group:
            lost = first_of(group)
        except* Exception as group:  # noqa: BLE001 - any fault of a step concerns this step alone
            self._failures.begin(step.__name__, first_of(group), step=step.__name__)
        else:
            self._failures.end(step.__name__)
        return lost

    async def _delete_expired_ids(self, context: Context) -> None:
        if await clocks_apart(context) is None:
            await self._expired_ids.delete(context)


class Warnings:
    """Warnings about states of the installation. Each is logged once while it lasts."""

    def __init__(self) -> None:
        self._states = LoggedStates()

    async def warn_of_missing_pools(self, context: Context) -> None:
        """Warn of each pool that tasks wait for and that does not exist."""
        waiting = await context.database.autocommit(pools.missing)
        for name in self._states.begun("pool_missing", waiting):
            log.warning("pool_missing", pool=name, tasks=waiting[name], hint=f"tidegate pools set {name} SLOTS")

    async def warn_of_open_transactions(self, context: Context) -> None:
        """Warn of each long transaction, which delays vacuum and the low watermarks."""
        rows = await context.database.autocommit(long_transactions.open_for, seconds=LONG_TRANSACTION_S)
        begun = self._states.begun("transaction_open_for_long", (row.id for row in rows))
        for row in (row for row in rows if row.id in begun):
            facts = {"role": row.role, "application": row.application, "address": row.address}
            log.warning("transaction_open_for_long", id=row.id, seconds=round(row.seconds), **facts)


class SilentAttempts:
    """The attempts that were silent at the last look. An attempt is lost once two looks in a row find it silent.

    After an outage of Postgres, and after a jump of its clock, all attempts are silent until their hosts have reported. Some have
    ended meanwhile.
    """

    def __init__(self) -> None:
        self._silent: Set[UUID] = frozenset()

    async def fail_silent_attempts(self, context: Context) -> None:
        """Fail attempts without a heartbeat for `runner_silent_s`. The handler checks again under the run's lock."""
        silent_s = context.settings.runner_silent_s
        before, self._silent = self._silent, frozenset()  # A look that fails is none.
        self._silent = frozenset(await context.database.autocommit(submissions.silent, silent_s))
        if lost := sorted(self._silent & before):
            log.warning("attempts_silent", count=len(lost), silent_s=silent_s)
            await context.submit_messages([AttemptSilent(submission_id=id_, silent_s=silent_s) for id_ in lost])


class UnreachableAttempts:
    """Since when each attempt of a host without a live daemon was found as such at every look.

    After an outage of Postgres no daemon lives until it has renewed its leases. So an attempt counts only after a second time to
    live. A host whose daemon starts again in this time keeps it.
    """

    def __init__(self) -> None:
        self._since: Mapping[UUID, float] = {}

    async def requeue_unreachable_attempts(self, context: Context) -> None:
        """Requeue attempts that a daemon was submitting when its host was lost. The handler checks again under the run's lock."""
        absent_s, shared = context.held_leases.ttl_s, tuple(context.shared_backends)
        before, self._since = self._since, {}  # A look that fails is none.
        found, now = await context.database.autocommit(submissions.unreachable, absent_s, shared), anyio.current_time()
        self._since = {id_: before.get(id_, now) for id_ in found}
        lost = [id_ for id_, since in self._since.items() if now - since >= absent_s]
        if lost:
            log.warning("attempts_unreachable", count=len(lost), absent_s=absent_s)
            await context.submit_messages(
                [AttemptUnreachable(submission_id=id_, absent_s=absent_s, shared=shared) for id_ in lost]
            )


async def requeue_stuck_attempts(context: Context) -> None:
    """Requeue attempts that wait for a submit longer than `queued_timeout_s`. The handler checks again under the run's lock."""
    queued_s = context.settings.queued_timeout_s
    stuck = await context.database.autocommit(submissions.stuck, queued_s)
    if stuck:
        log.warning("attempts_not_submitted", count=len(stuck), queued_s=queued_s)
        await context.submit_messages([AttemptStuck(submission_id=id_, queued_s=queued_s) for id_ in stuck])


async def end_strays(context: Context) -> None:
    """Kill what runs on this host for attempts that have ended, such as one that was lost while the host was cut off."""
    for backend in context.backends.values():
        strays = await _strays(context, backend)
        if context.in_doubt:
            return  # A commit that is lost may be found again.
        if strays:
            try:
                await _kill_all(backend, strays)
            finally:
                await backend.status(strays)  # ends the processes of killed runners, and their work at clusters


async def _strays(context: Context, backend: Backend) -> Mapping[UUID, Handle]:
    """What to kill. Two installations can share the spool of a host, by mistake: each kills only attempts with its own tokens."""
    if not (running := await backend.running()):
        return {}
    tokens = {id_: handle.get("token") for id_, handle in running.items()}
    recorded = await context.database.autocommit(submissions.strays, tokens)
    return {id_: running[id_] | (handle or {}) for id_, handle in recorded.items()}


async def _kill_all(backend: Backend, strays: Mapping[UUID, Handle]) -> None:
    """Kill side by side, because a kill takes up to the grace of its task. Raises the first error after the last kill."""
    limiter, errors = anyio.CapacityLimiter(KILLS_AT_ONCE), list[Exception]()

    async def kill(submission_id: UUID, handle: Handle) -> None:
        log.warning("stray_killed", submission_id=str(submission_id), backend=backend.name)
        try:
            async with limiter:
                await backend.kill(handle)
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - raised once the others were killed
            errors.append(error)

    async with anyio.create_task_group() as tg:
        for stray in strays.items():
            tg.start_soon(kill, *stray)
    if errors:
        raise errors[0]


async def count_lagging_backfills(context: Context) -> None:
    """Notify backfills of runs that daemons of a former version ended or reopened. The handler checks again under the lock."""
    lagging = await context.database.autocommit(backfill_dates.lagging)
    if lagging:
        log.info("backfills_lagging", backfills=lagging)
        await context.submit_messages([BackfillLagging(backfill_id=id_) for id_ in lagging])


async def reconsider_waiting_runs(context: Context) -> None:
    """Request to reconsider runs that wait for a run of another version, whose end may have requested nothing."""
    await context.database.autocommit(runs.reconsider_after_other_versions)


async def delete_dead_daemons(context: Context) -> None:
    """Delete the rows of dead daemons after `JOB_RETENTION_S`."""
    await context.database.autocommit(leases.forget_dead, JOB_RETENTION_S)


async def delete_spent_markers(context: Context) -> None:
    await commit_markers.delete_spent(context.database)


class Pruner:
    """Deletes old directories of the spool of this host, in a thread: a disk that hangs delays no other step for long."""

    def __init__(self, context: Context) -> None:
        self._root = spool_root(context.settings)
        self._threads = SpoolThreads(self._root)

    async def prune(self, context: Context) -> None:
        """Not those of attempts that are open in Postgres."""
        began = await context.database.autocommit(submissions.open_on_host, context.held_leases.job.host)
        remove = partial(spool.prune, self._root, context.settings.spool_days * DAY_S, began)
        try:
            removed = await self._threads.run(remove)
        except UnavailableError as error:
            log.warning("spool_not_pruned", error=str(error))
            return
        if removed:
            log.info("spool_pruned", submissions=removed)


async def maintain_months(context: Context) -> None:
    """Begin and retire the months of the ledger. By a clock that is years fast, the whole history would be dropped."""
    if apart := await clocks_apart(context):
        log.warning("clocks_differ", postgres_is_ahead_s=round(apart.total_seconds()), hint="set the clocks; nothing is dropped")
        return
    await maintain_ledger(context.database, context.settings.ledger_days)


async def delete_old_dead_letters(context: Context) -> None:
    """As `maintain_months`: a wrong clock deletes nothing."""
    if await clocks_apart(context) is None:
        await expire_dead_letters(context)


async def clocks_apart(context: Context) -> timedelta | None:
    """By how much the clock of Postgres differs from that of this host, if one of them is wrong by days."""
    apart = await context.database.autocommit(_now) - datetime.now(UTC)
    return apart if abs(apart) > MOST_APART else None


async def _now(db: Db) -> datetime:
    return db.now


async def delete_old_markers(context: Context) -> None:
    await context.database.autocommit(losses.forget_marks, commit_markers.RETENTION_S)
