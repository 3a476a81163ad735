"""Intents to backends: claimed, submitted, recorded. One dispatcher per backend, so that a slow one delays nobody else.

An intent is marked `submitting` before anything is tried. So an untouched intent needs no search, and a mark without a handle
means that a submit may have happened: the backend is asked for the stamp, until it must know, before anything is submitted again.
While a loss of commits is open, and for a minute after another server took over, every intent is searched for: commits that are
gone may have submitted it.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple
from uuid import UUID

import anyio
import structlog
from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.duties.claims import InHand
from tidegate.daemon.duties.specs import specs
from tidegate.daemon.retry import Retry
from tidegate.daemon.spark.contract import Backend, Handle, SubmissionSpec
from tidegate.daemon.wake import Signal
from tidegate.daemon.work import Work
from tidegate.schemas.error import RejectedError, UnavailableError
from tidegate.schemas.message import SubmissionAccepted
from tidegate.schemas.queries import submissions
from tidegate.schemas.queries.submissions import Claimed
from tidegate.schemas.wire.event import EventId, TaskFinished

log = structlog.get_logger()

MOST = 1000
SOON_S, LONG_S = 0.2, 1.0
"""A batch of claims that takes longer than that is made smaller, so that other daemons get their share; a short one larger."""

FIND_EVERY_S = 0.5
NEWS_WAIT_S = 0.02
"""So long the news that an attempt was taken waits for more of its kind: most cost one transaction together. Nothing depends on
it but who looks: the mark says already that the attempt may run, and what ends sooner needs no news of its start."""

FINISH_SOURCE = "tidegate/submission"
"""Source of the event that ends an attempt, whoever tells it: all of them are the same event."""


class Lot(NamedTuple):
    """What was claimed at once, and whether there may be more."""

    claims: list[Claimed]
    more: bool


Claim = Callable[[], Awaitable[Lot]]
Submit = Callable[[Claimed, SubmissionSpec], Awaitable[Handle | None]]
SubmitEach = Callable[[Sequence[Claimed]], Awaitable[None]]


def finish_id(submission_id: UUID) -> EventId:
    """The identity of the end of an attempt."""
    return EventId(FINISH_SOURCE, str(submission_id))


async def dispatch(context: Context, *, task_status: TaskStatus[None]) -> None:
    """For ever, for all backends."""
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
                dispatcher.signal.set()


class Dispatcher:
    """Submits for one backend. `in_hand` are the claims it is working on; whatever else it owns was dropped by a failure.

    What was submitted is recorded beside that, as it comes: by then it may have ended.
    """

    def __init__(self, context: Context, backend: Backend) -> None:
        self.context = context
        self.backend = backend
        self.signal = Signal()
        self.in_hand = InHand(context.held_leases)
        self._lost: set[str] = set()
        self._claiming = anyio.Lock()
        self._places = context.settings.dispatch_concurrency
        self._limiter = anyio.CapacityLimiter(self._places)
        self._at_once = self._places
        self._accepted: list[SubmissionAccepted] = []
        self._news = Signal()

    async def submit_intents(self) -> None:
        """Submit whatever is intended, for ever."""
        while True:
            await self.signal.wait(self.context.settings.sweep_s)
            await self._patiently(self._claim_intents, self._submit_each)

    async def take_over(self) -> None:
        """Settle submits that somebody else began, or we before a failure, for ever."""
        while True:
            await self._patiently(self._claim_abandoned, self._settle_each)
            await anyio.sleep(self.context.settings.lease_renew_s)

    async def record(self) -> None:
        """Store the handles of what was submitted, for ever: those tasks run."""
        while True:
            if await self._news.wait(self.context.settings.sweep_s):
                await anyio.sleep(NEWS_WAIT_S)
            accepted, self._accepted = self._accepted, []
            if not accepted:
                continue
            try:
                with self.context.outages.reporting():
                    await self.context.submit_messages(accepted)
            finally:
                self.in_hand.drop(each.submission_id for each in accepted)

    async def submit(self, _claim: Claimed, spec: SubmissionSpec) -> Handle | None:
        """None when it can never be started: then the attempt has failed, and the reason is told. Raises UnavailableError."""
        if self.context.in_doubt and (handle := await self.find(spec.submission_id, 0)) is not None:
            return handle
        self._stop_if_stale(spec.submission_id)
        try:
            return await self.backend.submit(spec)
        except RejectedError as error:
            await self._tell_end(TaskFinished(submission_id=spec.submission_id, outcome="failed", reason=str(error)))
            return None

    async def _tell_end(self, end: TaskFinished) -> None:
        await self.context.submit_messages([end], [finish_id(end.submission_id)])

    def _stop_if_stale(self, submission_id: UUID) -> None:
        """A daemon that was frozen may wake up here, with its work long taken over by somebody else."""
        if not self.in_hand.is_ours(submission_id):
            raise UnavailableError("this daemon has not renewed its leases in time", server="Postgres")

    async def settle(self, claim: Claimed, spec: SubmissionSpec) -> Handle | None:
        """Find it by its stamp, or submit it once it is sure that there is none; what is to be killed has ended then."""
        if (handle := await self.find(claim.submission_id, self.backend.visibility_grace_s)) is not None:
            return handle
        if claim.kill_reason is None:
            async with self._limiter:
                return await self.submit(claim, spec)
        await self._tell_end(TaskFinished(submission_id=claim.submission_id, outcome="killed", reason=claim.kill_reason))
        return None

    async def find(self, submission_id: UUID, within_s: float) -> Handle | None:
        """Look for the stamp, for as long as a submit by a process that died may still become visible."""
        deadline = anyio.current_time() + within_s
        while True:
            if (handle := await self.backend.find(submission_id)) is not None:
                log.info("submission_adopted", submission_id=str(submission_id), backend=self.backend.name)
                return handle
            if anyio.current_time() >= deadline:
                return None
            await anyio.sleep(FIND_EVERY_S)

    async def _patiently(self, claim: Claim, submit: SubmitEach) -> None:
        """Claim and submit until no work is left. Claims dropped by an outage are claimed again later."""
        retry = Retry(self.context.outages)
        while await retry.until_done(self._work_off, claim, submit):
            pass

    async def _work_off(self, claim: Claim, submit: SubmitEach) -> bool:
        claims, more = await self._take(claim)
        if claims:
            await submit(claims)
        return more

    async def _take(self, claim: Claim) -> Lot:
        """Claim, and have the claims in hand before anybody asks for what we own and do not work on."""
        async with self._claiming:
            life, lot = self.in_hand.life, await claim()
            self.in_hand.add((claimed.submission_id for claimed in lot.claims), life)
        return lot

    async def _submit_each(self, claims: Sequence[Claimed]) -> None:
        """A few at a time; backends that answer at once cost no more than a call."""
        began = anyio.current_time()
        todo = iter(await self._wanted(claims))

        async def work() -> None:
            for claim, spec in todo:
                await self._one(self.submit, claim, spec)

        async with anyio.create_task_group() as tg:
            for _ in range(min(self._places, len(claims))):
                tg.start_soon(work)
        self._measure(len(claims), anyio.current_time() - began)

    def _measure(self, count: int, took_s: float) -> None:
        if took_s > LONG_S:
            self._at_once = max(self._at_once // 2, self._places)
        elif took_s < SOON_S and count == self._at_once:
            self._at_once = min(self._at_once * 2, MOST)

    async def _settle_each(self, claims: Sequence[Claimed]) -> None:
        """All at a time: most of it is waiting for what may still become visible."""
        wanted = await self._wanted(claims)
        async with anyio.create_task_group() as tg:
            for claim, spec in wanted:
                tg.start_soon(self._one, self.settle, claim, spec)

    async def _wanted(self, claims: Sequence[Claimed]) -> Sequence[tuple[Claimed, SubmissionSpec]]:
        try:
            return list(zip(claims, await self.context.database.ask(specs, claims), strict=True))
        except BaseException:
            self.in_hand.drop(claim.submission_id for claim in claims)
            raise

    async def _one(self, submit: Submit, claim: Claimed, spec: SubmissionSpec) -> None:
        handle: Handle | None = None
        try:
            handle = await submit(claim, spec)
        except UnavailableError as error:
            self._lost.add(error.server)
            self.context.outages.begin(error)
        else:
            self.context.outages.end_all(self._lost)
        finally:
            if handle is None:
                self.in_hand.drop([claim.submission_id])
        if handle is not None:
            self._accepted.append(SubmissionAccepted(submission_id=claim.submission_id, handle=handle))
            self._news.set()

    async def _claim_intents(self) -> Lot:
        job, at_once = self.context.held_leases.job, self._at_once
        claims = await self.context.database.ask(submissions.claim_intents, job.id, job.host, self.backend.name, at_once)
        return Lot(claims, more=len(claims) == at_once)

    async def _claim_abandoned(self) -> Lot:
        job = self.context.held_leases.job
        host = None if self.backend.host is None else job.host
        claims = await self.context.database.ask(
            submissions.claim_abandoned, job.id, job.host, self.backend.name, host, self.in_hand.ids
        )
        return Lot(claims, more=bool(claims))
