"""Notifications to their receivers: claimed, sent after the commit of their cause, and recorded.

A notification that was acknowledged is never sent again. An attempt with an unknown result, because its daemon died or cannot
reach Postgres, is repeated with the same id. A claim lasts as long as an attempt may take. An acknowledgement is recorded even if
the claim has passed to another daemon, every other result only by the owner of the claim.
"""

import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup, TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.duties.receivers.delivery import Delivery, Failed, Sender, Sent, UnderWay, label
from tidegate.daemon.duties.receivers.function import FunctionSender
from tidegate.daemon.duties.receivers.on_demand import OnDemand
from tidegate.daemon.duties.run_on_signal import run_on_signal
from tidegate.daemon.fault_log import faults
from tidegate.daemon.measure import NOTIFIED, Sample
from tidegate.daemon.outage import Retry
from tidegate.daemon.settings import Settings
from tidegate.daemon.work import Work
from tidegate.schemas.error import FATAL, POSTGRES
from tidegate.schemas.notice import page_of
from tidegate.schemas.queries import notifications
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.notifications import AnyClaim, ClaimedNotification, Unreadable
from tidegate.schemas.receiver import kind_of
from tidegate.schemas.wire.event import storable

log = structlog.get_logger()

CONCURRENCY: Mapping[str, int] = {"email": 16, "webhook": 16, "function": 8}
"""Concurrent notifications of each kind per daemon, so that a slow kind delays no other. A function counts until it ends."""

CLAIMED_AT_ONCE = 4
"""The most notifications of a kind that one transaction claims."""

BUSY_FROM = 4
"""Notifications in progress from which a receiver gets no further one: a receiver that hangs leaves slots to others."""

LONGEST_PAUSE_S = 600.0
CLAIM_MARGIN_S = 20.0
"""Time to record the result of an attempt: a claim lasts this much longer than the attempt may take.

A daemon that finds an expired claim waits this long, too: in an outage of Postgres, claims end before results are recorded.
"""

POLL_MARGIN_S = 5.0
"""A claim on a running function lasts this much longer than until the next poll."""


async def notify(context: Context, *, task_status: TaskStatus[None]) -> None:
    """Send notifications, for ever."""
    async with open_senders(context) as senders, anyio.create_task_group() as tg:
        notifier = Notifier(context, senders, tg)
        task_status.started()
        await run_on_signal(context, Work.NOTIFY, notifier.send_due)


@asynccontextmanager
async def open_senders(context: Context) -> AsyncIterator[Mapping[str, Sender]]:
    """The sender of each kind of receiver."""
    async with AsyncExitStack() as stack:
        yield {
            "email": OnDemand(partial(_open_mail, context.settings)),
            "webhook": OnDemand(partial(_open_webhooks, context, stack)),
            "function": FunctionSender(context),
        }


def _open_mail(settings: Settings) -> Sender:
    from tidegate.daemon.duties.receivers.mail import MailSender  # noqa: PLC0415 - see OnDemand

    return MailSender(settings)


def _open_webhooks(context: Context, stack: AsyncExitStack) -> Sender:
    from tidegate.daemon.duties.receivers.webhook import WebhookSender, open_client  # noqa: PLC0415 - see OnDemand

    client = open_client(context.settings, CONCURRENCY["webhook"])
    stack.push_async_callback(client.aclose)
    return WebhookSender(context.settings, context.database.clock, client)


class Notifier:
    """Sends what it claims. `in_progress` are the notifications being sent."""

    def __init__(self, context: Context, senders: Mapping[str, Sender], tg: TaskGroup) -> None:
        self.context = context
        self.owner = context.held_leases.job.id
        self.senders = senders
        self.tg = tg
        self.in_progress: set[int] = set()
        self._busy: Counter[str] = Counter()
        self._receivers: Counter[int] = Counter()

    async def send_due(self) -> bool:
        """Claim due notifications up to `CONCURRENCY` and start to send them. Returns whether there were any.

        Raises UnavailableError.
        """
        free = {kind: min(slots, CLAIMED_AT_ONCE) for kind in self.senders if (slots := CONCURRENCY[kind] - self._busy[kind]) > 0}
        if not free:
            return False
        claims = await self.context.database.run(self.claim, free)
        self.context.outages.end(POSTGRES)
        for claimed in claims:
            self.in_progress.add(claimed.id)
            self._busy[kind_of(claimed.receiver)] += 1
            self._receivers[claimed.receiver_key] += 1
            self.tg.start_soon(self.deliver, self._with_page(claimed))
        return bool(claims)

    def _with_page(self, claimed: ClaimedNotification) -> ClaimedNotification:
        url = page_of(self.context.settings.public_url, claimed.context)
        return msgspec.structs.replace(claimed, context=msgspec.structs.replace(claimed.context, url=url))

    async def claim(self, db: Db, free: Mapping[str, int]) -> list[ClaimedNotification]:
        """Claim up to `free` notifications of each kind, for as long as an attempt may take. Unreadable ones fail this try."""
        settings, job = self.context.settings, self.context.held_leases.job
        for_s = settings.notify_timeout_s + CLAIM_MARGIN_S
        claims = await notifications.claim(
            db,
            free,
            job.id,
            job.host,
            for_s=for_s,
            margin_s=CLAIM_MARGIN_S,
            silent_s=settings.runner_silent_s,
            in_hand=self.in_progress,
            busy=[key for key, count in self._receivers.items() if count >= BUSY_FROM],
        )
        for claimed in claims:
            if isinstance(claimed, Unreadable):
                log.error("notification_unreadable", id=claimed.id, tries=claimed.tries, reason=claimed.reason)
                await self.write(db, claimed, Failed(claimed.reason))
        return [claimed for claimed in claims if isinstance(claimed, ClaimedNotification)]

    async def deliver(self, claimed: ClaimedNotification) -> None:
        """Send one notification and record the result."""
        kind, lost = kind_of(claimed.receiver), set[str]()
        try:
            outcome = await self._try(self.senders[kind], claimed, lost)
            while isinstance(outcome, UnderWay):
                await anyio.sleep(outcome.poll_in_s)
                outcome = await self._try(self.senders[kind], claimed, lost)
        finally:
            self.context.outages.end_all(lost)
            self.in_progress.discard(claimed.id)
            self._busy[kind] -= 1
            self._receivers -= Counter([claimed.receiver_key])
        self._log_outcome(claimed, outcome)
        self.context.measurements.add([Sample(NOTIFIED, 1, (kind, "sent" if isinstance(outcome, Sent) else "failed"))])
        self.context.signals.of[Work.NOTIFY].set()

    async def _try(self, sender: Sender, claimed: ClaimedNotification, lost: set[str]) -> Delivery:
        """Shielded: a stopping daemon finishes the attempt and its record, which both take bounded time."""
        retry = Retry(self.context.outages)
        with anyio.CancelScope(shield=True):
            outcome = await self._send(sender, claimed, lost)
            is_recorded = await retry.once(self._record, claimed, outcome)
        if not is_recorded:
            await retry.until_done(self._record, claimed, outcome)
        return outcome

    async def _send(self, sender: Sender, claimed: ClaimedNotification, lost: set[str]) -> Delivery:
        """`lost` has the servers that this notification waits for."""
        outcome: Delivery = UnderWay(self.context.settings.sweep_s)
        try:
            with self.context.outages.reporting(lost):
                outcome = await sender.send(claimed)
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - any fault of a receiver concerns its notifications alone
            faults.report("notification_not_sendable", error, to=label(claimed.receiver))
            outcome = Failed(f"{type(error).__name__}: {error}")
        return outcome

    async def _record(self, claimed: ClaimedNotification, outcome: Delivery) -> bool:
        await self.context.database.run(self.write, claimed, outcome)
        return True

    async def write(self, db: Db, claimed: AnyClaim, outcome: Delivery) -> None:
        """Record the result of an attempt."""
        match outcome:
            case Sent(note):
                await notifications.record_sent(db, claimed.id, storable(note))
            case UnderWay(poll_in_s):
                await notifications.extend_claim(db, claimed, self.owner, poll_in_s + POLL_MARGIN_S)
            case Failed(reason) if self._is_last(claimed, outcome):
                await notifications.record_failure(db, claimed, self.owner, storable(reason))
            case Failed(reason):
                await notifications.record_retry(
                    db, claimed, self.owner, storable(reason), pause_s(self.context.settings, claimed.tries)
                )

    def _is_last(self, claimed: AnyClaim, failed: Failed) -> bool:
        return failed.final or claimed.tries >= self.context.settings.notify_tries

    def _log_outcome(self, claimed: ClaimedNotification, outcome: Sent | Failed) -> None:
        """Log the success, the first failure and the last one."""
        context = claimed.context
        facts = {"to": label(claimed.receiver), "on": context.on, "dag_id": context.dag_id}
        facts |= {"run_id": context.run_id} if context.run_id else {}
        facts |= {"task_id": context.task_id} if context.task_id else {}
        match outcome:
            case Sent():
                log.info("notification_sent", **facts, tries=claimed.tries)
            case Failed(reason) if self._is_last(claimed, outcome):
                log.warning("notification_given_up", **facts, tries=claimed.tries, reason=reason)
            case Failed(reason) if claimed.tries == 1:
                log.warning("notification_failed", **facts, reason=reason)
            case Failed():
                pass


def pause_s(settings: Settings, tries: int) -> float:
    """The pause before the next attempt: it doubles, with jitter."""
    pause = min(settings.notify_retry_s * 2.0 ** min(tries - 1, 30), LONGEST_PAUSE_S)
    return pause * random.uniform(1.0, 1.25)  # noqa: S311, not a secret
