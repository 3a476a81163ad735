"""The pauses of notifications: before the next try to send, and before the next try to record."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast, get_args
from uuid import UUID

import anyio
import pytest
from structlog.testing import capture_logs

from tidegate.daemon.context import Context
from tidegate.daemon.duties.notify import CONCURRENCY, LONGEST_PAUSE_S, Notifier, pause_s
from tidegate.daemon.duties.receivers.delivery import Sent
from tidegate.daemon.leases import HeldLeases
from tidegate.daemon.measure import NOTIFIED, Measurements
from tidegate.daemon.outage import Outages
from tidegate.daemon.settings import Settings
from tidegate.daemon.wake import Signals
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.notice import CallbackContext
from tidegate.schemas.queries.leases import Job
from tidegate.schemas.queries.notifications import ClaimedNotification
from tidegate.schemas.receiver import On, Receiver, WebhookReceiver

SETTINGS = Settings(postgres_dsn="", kafka_servers="", notify_retry_s=5.0)


@pytest.mark.parametrize(("tries", "least"), [(1, 5.0), (2, 10.0), (3, 20.0), (8, LONGEST_PAUSE_S), (10_000, LONGEST_PAUSE_S)])
def test_the_pause_doubles_up_to_a_cap_and_is_spread(tries: int, least: float) -> None:
    pauses = [pause_s(SETTINGS, tries) for _ in range(200)]

    assert all(least <= pause <= least * 1.25 for pause in pauses)
    assert max(pauses) - min(pauses) > least / 8


def test_each_kind_of_receiver_has_a_concurrency() -> None:
    assert set(CONCURRENCY) == {kind.__struct_config__.tag for kind in get_args(Receiver)}


NOW = datetime(2024, 5, 1, tzinfo=UTC)
CLAIMED = ClaimedNotification(
    id=7,
    delivery_id=UUID(int=7),
    dag_run_id=1,
    version_id=None,
    receiver_key=1,
    receiver=WebhookReceiver("https://example.org"),
    context=CallbackContext(
        on=On.FAILURE, dag_id="d", run_id="r", run_type=None, run_after=NOW, logical_date=None, state="failed", at=NOW
    ),
    tries=1,
)


class RecordedDelivery:
    """A sender whose first calls fail by `errors`, and a Postgres that is away for the first `failures` records.

    `steps` are what the notifier did.
    """

    def __init__(self, failures: int, *errors: Exception) -> None:
        self.failures = failures
        self.errors = list(errors)
        self.steps: list[str] = []
        self.measurements = Measurements()

    async def send(self, _claimed: ClaimedNotification) -> Sent:
        self.steps.append("send")
        if self.errors:
            raise self.errors.pop(0)
        return Sent("ok")

    async def run(self, *_work: object) -> None:
        self.steps.append("record")
        self.failures -= 1
        if self.failures >= 0:
            raise UnavailableError("away", server="Postgres")

    async def sleep(self, _seconds: float) -> None:
        self.steps.append("pause")

    def notifier(self) -> Notifier:
        job = Job(UUID(int=1), "host", 1, "test")
        context = SimpleNamespace(
            database=self,
            held_leases=HeldLeases(job),
            outages=Outages(),
            signals=Signals(),
            settings=SETTINGS,
            measurements=self.measurements,
        )
        return Notifier(cast("Context", context), {"webhook": self}, anyio.create_task_group())


@pytest.mark.parametrize("failures", [0, 1, 3])
async def test_a_pause_precedes_every_further_try_to_record_a_result(monkeypatch: pytest.MonkeyPatch, failures: int) -> None:
    recorded = RecordedDelivery(failures)
    monkeypatch.setattr(anyio, "sleep", recorded.sleep)
    with capture_logs():
        await recorded.notifier().deliver(CLAIMED)

    assert recorded.steps == ["send", "record", *["pause", "record"] * failures]


async def test_a_sender_that_fails_at_each_try_is_logged_once_a_minute() -> None:
    recorded = RecordedDelivery(0, *[KeyError("of a sender")] * 3)
    with capture_logs() as logs:
        for _ in range(3):
            await recorded.notifier().deliver(CLAIMED)

    faults = [line for line in logs if line["event"] == "notification_not_sendable"]
    assert [(line["error"], line["to"]) for line in faults] == [("KeyError: 'of a sender'", "https://example.org")]


@pytest.mark.parametrize("later", [[], [KeyError("of a sender")]], ids=["sent", "failed"])
async def test_the_outage_that_a_notification_met_ends_with_its_next_try(
    monkeypatch: pytest.MonkeyPatch, later: list[Exception]
) -> None:
    recorded = RecordedDelivery(0, UnavailableError("no space", server="the spool"), *later)
    monkeypatch.setattr(anyio, "sleep", recorded.sleep)
    notifier = recorded.notifier()
    with capture_logs() as logs:
        await notifier.deliver(CLAIMED)

    assert recorded.steps == ["send", "record", "pause", "send", "record"]
    assert [line["event"] for line in logs if "server" in line] == ["server_lost", "server_back"]
    assert dict(notifier.context.outages.away) == {}
    assert recorded.measurements.counters[NOTIFIED.name] == {("webhook", "failed" if later else "sent"): 1}
