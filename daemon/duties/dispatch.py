"""Dispatch: claims intents, submits them to their backend and records the handles. One dispatcher per backend, for isolation.

An intent becomes `submitting` before the first call to the backend. An intent in state `intent` therefore needs no search. A
`submitting` one without a handle may have been submitted: the backend is searched for its stamp before another submit.
An attempt of which a host can start nothing becomes an intent again, for other hosts. Until a submit succeeds, or a check without
intents, the dispatcher tries one at a time, with pauses: what fails at once would otherwise claim more than what works.
While a loss of commits is open, and for a minute after a takeover of another server, every intent is searched for: a lost
transaction may have submitted it.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

import anyio
import structlog
from anyio.abc import TaskStatus

from tidegate.daemon.containment import Containment
from tidegate.daemon.context import Context
from tidegate.daemon.duties.active_claims import ActiveClaims
from tidegate.daemon.duties.finishes import submit_finishes
from tidegate.daemon.duties.run_events import with_events
from tidegate.daemon.duties.submission_specs import Step, next_steps
from tidegate.daemon.leases import NOT_RENEWED
from tidegate.daemon.measure import TASK_DELAY, Sample
from tidegate.daemon.outage import Backoff, Retry
from tidegate.daemon.spark.contract import Backend, Handle
from tidegate.daemon.wake import Signal
from tidegate.daemon.work import Work
from tidegate.schemas.cluster import clusters_of_backends
from tidegate.schemas.error import POSTGRES, NotStartedError, RejectedError, UnavailableError, UnknownClusterError
from tidegate.schemas.message import SubmissionAccepted
from tidegate.schemas.queries import submissions
from tidegate.schemas.queries.submissions import ClaimedAttempt
from tidegate.schemas.wire.event import TaskFinished

log = structlog.get_logger()

MAX_BATCH = 1000
SHORT_S, LONG_S = 0.2, 1.0
"""A batch of claims that takes longer than `LONG_S` is halved, for other daemons to claim; below `SHORT_S` it is doubled."""

FIND_EVERY_S = 0.5

RECORD_DELAY_S = 0.02
"""Handles wait this long for others, to be recorded in one transaction. A runner takes longer to start, and its task begins after
that. An attempt that ends first needs no handle."""


class ClaimedBatch(NamedTuple):
    """Intents claimed in one statement, and whether more may be left."""

    claims: list[ClaimedAttempt]
    more: bool


Claim = Callable[[], Awaitable[ClaimedBatch]]
Submit = Callable[[Step], Awaitable[Handle | None]]
SubmitBatch = Callable[[Sequence[ClaimedAttempt]], Awaitable[None]]


async def dispatch(context: Context, *, task_status: TaskStatus[None]) -> None:
    """Run the dispatchers of all backends, for ever."""
    dispatchers = [Dispatcher(context, backend) for backend in context.backends.values()]
    async with anyio.create_task_group() as tg:
        for dispatcher in dispatchers:
            tg.start_soon(dispatcher.submit_intents)
            tg.start_soon(dispatcher.take_over)
            tg.start_soon(dispatcher.record)
        task_status.started()
        while True:
            await context.signals.of[Work.DISPATCH].wait(context.settings.sweep_s)
            for dispatcher in dispatchers:
                dispatcher.intents.set()


class Dispatcher:
    """Submits for one backend. `claims` are the claims in progress; `take_over` claims other intents of this daemon again.

    Handles are recorded by a task of their own, possibly after the end of the attempt.
    """

    def __init__(self, context: Context, backend: Backend) -> None:
        self.context = context
        self.backend = backend
        self.intents = Signal()
        self.claims = ActiveClaims(context.held_leases)
        self._containment = Containment(context.outages, "submit_failed")
        self._backoff = Backoff()
        self._claiming = anyio.Lock()
        self._concurrency = context.settings.dispatch_concurrency
        self._limiter = anyio.CapacityLimiter(self._concurrency)
        self._batch_size = self._concurrency
        self._clusters = clusters_of_backends(context.settings.clusters).get(backend.name, ())
        self._accepted: list[SubmissionAccepted] = []
        self._has_accepted = Signal()
        self._unconfirmed: set[UUID] = set()
        self._lost: set[str] = set()

    async def submit_intents(self) -> None:
        """Claim and submit intents, for ever."""
        while True:
            await self.intents.wait(self.context.settings.sweep_s)
            await self._work_off(self._claim_intents, self._submit_batch)
            await self.end_outage()

    async def end_outage(self) -> None:
        """End an outage of this host that no submit may ever end, because other hosts have its intents."""
        if self._containment.is_out and not self.claims.paused:
            with suppress(UnavailableError):
                await self.backend.check()
                self._containment.end_outages()

    async def take_over(self) -> None:
        """Resolve submits with an unknown outcome, of dead daemons and of this one from before an outage, for ever."""
        while True:
            await self._work_off(self._claim_abandoned, self._resolve_batch)
            await anyio.sleep(self.context.settings.lease_renew_s)

    async def record(self) -> None:
        """Record the handles of accepted submissions, for ever."""
        while True:
            if await self._has_accepted.wait(self.context.settings.sweep_s):
                await anyio.sleep(RECORD_DELAY_S)
            accepted, self._accepted = self._accepted, []
            if not accepted and not self._unconfirmed:
                continue
            try:
                with self.context.outages.reporting(self._lost):
                    await self._record(accepted)
            finally:
                self.claims.discard(message.submission_id for message in accepted)

    async def _record(self, accepted: Sequence[SubmissionAccepted]) -> None:
        """Handles that are recorded and not confirmed, because the spool was away, are confirmed with the next ones."""
        if accepted:
            await self.context.submit_messages(accepted)
        self._unconfirmed |= {message.submission_id for message in accepted}
        waited = await self.confirm(self._unconfirmed)
        self._unconfirmed.clear()
        self.context.measurements.add(
            Sample(TASK_DELAY, seconds, (self.backend.name,)) for seconds in waited.values() if seconds is not None
        )

    async def confirm(self, submission_ids: Collection[UUID]) -> Mapping[UUID, float | None]:
        """Let the tasks begin whose handles are recorded. `observe` does so for those of a daemon that ends here.

        Returns how long each was ready before.
        """
        owner = self.context.held_leases.job.id
        recorded = await self.context.database.autocommit(submissions.recorded, submission_ids, owner)
        await self.backend.confirm(dict.fromkeys(recorded))
        return recorded

    async def submit(self, step: Step) -> Handle | None:
        """Submit the attempt. Returns its handle; None if the step ends the attempt, or the backend rejects it, which fails it.

        Raises UnavailableError.
        """
        if self.context.in_doubt and (handle := await self.find(step.submission_id, 0)) is not None:
            return handle
        try:
            if not isinstance(step, TaskFinished):
                async with with_events(self.context, step) as spec:
                    self._stop_if_stale(step.submission_id)
                    return await self.backend.submit(spec)
            self._stop_if_stale(step.submission_id)
            await submit_finishes(self.context, [step])
        except RejectedError as error:
            end = TaskFinished(submission_id=step.submission_id, token=step.token, outcome="failed", reason=str(error))
            await submit_finishes(self.context, [end])
        return None

    def _stop_if_stale(self, submission_id: UUID) -> None:
        """Raises UnavailableError when this daemon was frozen, also while it read, and another one may own the claim."""
        if not self.claims.is_ours(submission_id):
            raise UnavailableError(NOT_RENEWED, server=POSTGRES)

    async def resolve(self, step: Step) -> Handle | None:
        """Adopt the submission with this stamp. Without one, do the step."""
        if (handle := await self.find(step.submission_id, self.backend.visibility_grace_s)) is not None:
            return handle
        async with self._limiter:
            try:
                return await self.submit(step)
            except UnknownClusterError as error:  # The setting was changed meanwhile: the sweep queues the attempt again.
                log.warning("cluster_unknown", submission_id=str(step.submission_id), error=str(error))
                return None

    async def find(self, submission_id: UUID, within_s: float) -> Handle | None:
        """Poll the backend for the stamp for `within_s`: the submit of a dead process may become visible late."""
        deadline = anyio.current_time() + within_s
        while True:
            if (handle := await self.backend.find(submission_id)) is not None:
                log.info("submission_adopted", submission_id=str(submission_id), backend=self.backend.name)
                return handle
            if anyio.current_time() >= deadline:
                return None
            await anyio.sleep(FIND_EVERY_S)

    async def _work_off(self, claim: Claim, submit: SubmitBatch) -> None:
        """Claim and submit until no work is left. Claims dropped by an outage are claimed again later."""
        retry = Retry(self.context.outages)
        while await retry.until_done(self._claim_and_submit, claim, submit):
            pass

    async def _claim_and_submit(self, claim: Claim, submit: SubmitBatch) -> bool:
        claims, more = await self._claim(claim)
        if claims:
            await submit(claims)
        return more

    async def _claim(self, claim: Claim) -> ClaimedBatch:
        """Claim under the lock, so that `_claim_abandoned` excludes all claims in progress."""
        async with self._claiming:
            generation, batch = self.claims.lease_generation, await claim()
            self.claims.add((claimed.submission_id for claimed in batch.claims), generation)
        return batch

    async def _submit_batch(self, claims: Sequence[ClaimedAttempt]) -> None:
        """Submit with limited concurrency, by workers instead of a task per claim."""
        began = anyio.current_time()
        todo = iter(await self._next_steps(claims))

        async def work() -> None:
            for step in todo:
                await self._submit_one(self._submit_intent, step)

        async with anyio.create_task_group() as tg:
            for _ in range(min(self._concurrency, len(claims))):
                tg.start_soon(work)
        self._adapt_batch_size(len(claims), anyio.current_time() - began)
        await self._pause_in_outage()

    async def _pause_in_outage(self) -> None:
        """Leave intents to other hosts while this one can start nothing."""
        if self._containment.is_out:
            await self._backoff.pause()
        else:
            self._backoff.reset()

    async def _submit_intent(self, step: Step) -> Handle | None:
        """As `submit`. An attempt that was not started is given back, and not claimed again here for a while."""
        try:
            return await self.submit(step)
        except UnknownClusterError as error:
            log.info("attempt_left_to_other_hosts", submission_id=str(step.submission_id), error=str(error))
            await self._give_back(step.submission_id, error.cluster)
            return None
        except NotStartedError:
            await self._give_back(step.submission_id)
            raise

    async def _give_back(self, submission_id: UUID, cluster: str | None = None) -> None:
        """`cluster` of an attempt of a former version, which does not tell it."""
        self.claims.pause([submission_id])
        await self.context.database.autocommit(submissions.give_back, submission_id, self.context.held_leases.job.id, cluster)

    def _adapt_batch_size(self, count: int, took_s: float) -> None:
        if took_s > LONG_S:
            self._batch_size = max(self._batch_size // 2, self._concurrency)
        elif took_s < SHORT_S and count == self._batch_size:
            self._batch_size = min(self._batch_size * 2, MAX_BATCH)

    async def _resolve_batch(self, claims: Sequence[ClaimedAttempt]) -> None:
        """Resolve all concurrently: most of the time is the wait for a submit to become visible.

        An attempt without a handle afterwards is claimed again after a pause, so that it keeps no other waiting.
        """
        steps = await self._next_steps(claims)
        async with anyio.create_task_group() as tg:
            for step in steps:
                tg.start_soon(self._submit_one, self.resolve, step)
        self.claims.pause({claim.submission_id for claim in claims} - self.claims.ids)

    async def _next_steps(self, claims: Sequence[ClaimedAttempt]) -> Sequence[Step]:
        """The next steps. Claims without one are dropped, all of them after an error."""
        steps: Sequence[Step] = ()
        try:
            steps = await next_steps(self.context.database, claims)
        finally:
            self.claims.discard({claim.submission_id for claim in claims} - {step.submission_id for step in steps})
        return steps

    async def _submit_one(self, submit: Submit, step: Step) -> None:
        """An unexpected error of one submit is an outage of the backend for its attempt alone: it is resolved again later.

        A step without a handle, such as the end of a killed attempt, does not show that this host can start anything.
        """
        handle: Handle | None = None
        try:
            with self._containment.of(step.submission_id, submission_id=str(step.submission_id), backend=self.backend.name):
                handle = await submit(step)
        finally:
            if handle is None:
                self.claims.discard([step.submission_id])
        if handle is not None:
            self._containment.end_outages()
            self._accepted.append(SubmissionAccepted(submission_id=step.submission_id, handle=handle))
            self._has_accepted.set()

    async def _claim_intents(self) -> ClaimedBatch:
        job, limit = self.context.held_leases.job, 1 if self._containment.is_out else self._batch_size
        claims = await self.context.database.autocommit(
            submissions.claim_intents, job.id, job.host, self.backend.name, limit, self.claims.paused, self._clusters
        )
        return ClaimedBatch(claims, more=len(claims) == limit)

    async def _claim_abandoned(self) -> ClaimedBatch:
        job = self.context.held_leases.job
        host = None if self.backend.host is None else job.host
        claims = await self.context.database.autocommit(
            submissions.claim_abandoned, job.id, job.host, self.backend.name, host, self.claims.excluded
        )
        return ClaimedBatch(claims, more=bool(claims))
