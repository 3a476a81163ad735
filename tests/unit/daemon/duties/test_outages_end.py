"""An outage that a duty met ends when its next try meets none: no other duty may ever ask that server."""

from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import anyio
import anyio.lowlevel
import pytest
from structlog.testing import capture_logs

from tidegate.daemon.context import Context
from tidegate.daemon.duties.dag_folder import publish_changed
from tidegate.daemon.duties.dispatch import Dispatcher
from tidegate.daemon.duties.submission_specs import Step
from tidegate.daemon.duties.sweep import Sweeper, sweep
from tidegate.daemon.leases import HeldLeases
from tidegate.daemon.measure import TASK_DELAY, Measurements
from tidegate.daemon.outage import Outages
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.contract import Backend, Handle
from tidegate.events.sink import Sink
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.message import SubmissionAccepted
from tidegate.schemas.queries.leases import Job
from tidegate.schemas.queries.submissions import ClaimedAttempt
from tidegate.schemas.wire.event import TaskFinished

SETTINGS = Settings(postgres_dsn="", kafka_servers="", sweep_s=0.01)
ATTEMPT = UUID(int=7)


class LastStepError(Exception):
    """Ends a duty that would go on for ever."""


class Fragile:
    """A server that is away for the first `failures` of its calls, and the end of a duty after the first success.

    `calls` has the arguments of each call.
    """

    name, host = "command", "host"

    def __init__(self, server: str, failures: int = 2) -> None:
        self.server = server
        self.failures = failures
        self.calls: list[Any] = []

    def call(self, arguments: Any) -> None:
        self.calls.append(arguments)
        if len(self.calls) <= self.failures:
            raise UnavailableError("away", server=self.server)

    async def send_all(self, records: Sequence[Any]) -> Sequence[bool]:
        self.call(len(records))
        return [True] * len(records)

    async def confirm(self, recorded: Mapping[UUID, int | None]) -> None:
        self.call(dict(recorded))

    async def check(self) -> None:
        self.call("check")

    async def round(self) -> None:
        if len(self.calls) > self.failures:
            raise LastStepError
        self.call(None)


class Daemon:
    """A daemon whose Postgres answers, as far as these duties ask it."""

    def __init__(self) -> None:
        self.outages = Outages()
        self.measurements = Measurements()
        self.submitted: list[Sequence[SubmissionAccepted]] = []
        self.database = SimpleNamespace(autocommit=self.recorded, clock=SimpleNamespace(known=lambda: None))
        self.context = cast(
            Context,
            SimpleNamespace(
                outages=self.outages,
                settings=SETTINGS,
                held_leases=HeldLeases(Job(UUID(int=1), "host", 1, "test")),
                database=self.database,
                submit_messages=self.submit,
                measurements=self.measurements,
            ),
        )

    async def recorded(self, _query: object, ids: Collection[UUID], _owner: UUID) -> dict[UUID, float]:
        return dict.fromkeys(ids, 2.5)

    async def submit(self, messages: Sequence[SubmissionAccepted]) -> None:
        self.submitted.append(messages)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pause = anyio.lowlevel.checkpoint
    monkeypatch.setattr("tidegate.daemon.outage.anyio.sleep", lambda _seconds: pause())


async def test_the_outage_of_the_spool_that_a_sweep_met(monkeypatch: pytest.MonkeyPatch) -> None:
    daemon, spool = Daemon(), Fragile("the spool")
    monkeypatch.setattr(Sweeper, "round", lambda _: spool.round())
    with capture_logs(), pytest.raises(LastStepError):
        await sweep(daemon.context, task_status=anyio.TASK_STATUS_IGNORED)

    assert (len(spool.calls), dict(daemon.outages.away)) == (3, {})


async def test_the_outage_of_the_spool_that_a_record_of_handles_met() -> None:
    """Handles that were recorded before the outage are confirmed after it."""
    daemon, spool = Daemon(), Fragile("the spool")
    dispatcher = Dispatcher(daemon.context, cast(Backend, spool))
    dispatcher._accepted.append(accepted := SubmissionAccepted(submission_id=ATTEMPT, handle={}))
    with capture_logs(), anyio.fail_after(60):
        async with anyio.create_task_group() as tg:
            tg.start_soon(dispatcher.record)
            while len(spool.calls) < 3 or daemon.outages.away:
                await anyio.lowlevel.checkpoint()
            tg.cancel_scope.cancel()

    assert daemon.submitted == [[accepted]]
    assert [list(call) for call in spool.calls] == [[ATTEMPT]] * 3
    (waited,) = daemon.measurements.delays[TASK_DELAY.name].values()
    assert (sum(waited.counts), waited.total_s) == (1, 2.5), "the attempt is counted once"


async def test_only_a_submit_shows_that_a_host_can_start_something_again() -> None:
    """The end of a killed attempt needs no spool."""
    daemon, spool = Daemon(), Fragile("the spool", failures=1)
    dispatcher = Dispatcher(daemon.context, cast(Backend, spool))

    async def submit(_step: Step) -> Handle | None:
        spool.call(None)
        return {} if len(spool.calls) > 2 else None

    end = TaskFinished(submission_id=ATTEMPT, token="", outcome="killed")
    is_out = list[bool]()
    with capture_logs():
        for _ in range(3):
            await dispatcher._submit_one(submit, end)
            is_out.append(dispatcher._containment.is_out)

    assert (is_out, dict(daemon.outages.away)) == ([True, True, False], {})


async def test_the_outage_of_a_host_without_intents_ends_once_it_can_start_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other hosts have what it did not start, so that no submit of its own shows that."""
    daemon, spool = Daemon(), Fragile("the spool")
    dispatcher = Dispatcher(daemon.context, cast(Backend, spool))

    async def no_intents(*_: Any) -> list[ClaimedAttempt]:
        return []

    monkeypatch.setattr(daemon.database, "autocommit", no_intents)
    with capture_logs(), anyio.fail_after(60):
        with dispatcher._containment.of(ATTEMPT):
            spool.call(ATTEMPT)
        dispatcher.claims.pause([ATTEMPT])
        await dispatcher.end_outage()
        dispatcher.claims._pauses.clear()
        async with anyio.create_task_group() as tg:
            tg.start_soon(dispatcher.submit_intents)
            while daemon.outages.away:
                await anyio.lowlevel.checkpoint()
            tg.cancel_scope.cancel()

    assert spool.calls == [ATTEMPT, "check", "check"]


async def test_the_outage_of_kafka_that_a_changed_dag_file_met(monkeypatch: pytest.MonkeyPatch) -> None:
    daemon, kafka = Daemon(), Fragile("Kafka")
    monkeypatch.setattr("tidegate.daemon.duties.dag_folder.change", lambda *_: None)
    with capture_logs():
        await publish_changed(daemon.context, cast(Sink, kafka), ["a.py"])

    assert (kafka.calls, dict(daemon.outages.away)) == ([1, 1, 1], {})
