"""The start of the duties of a daemon: a broken one keeps no other from starting, and the sweep waits for the observer."""

from collections.abc import Callable
from typing import Any, cast
from uuid import uuid4

import anyio
import pytest
from anyio.abc import TaskStatus

from tidegate.daemon import supervisor
from tidegate.daemon.context import Context
from tidegate.daemon.dagfiles.parse import Parser
from tidegate.daemon.duties.parse_files import FileParsing
from tidegate.daemon.leases import HeldLeases
from tidegate.daemon.outage import Outages
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.restart import Duty
from tidegate.daemon.settings import Settings
from tidegate.daemon.wake import Signals
from tidegate.schemas.queries.leases import Job

ONE_DUTY_EACH = ("renew_leases", "listen", "notify_peers", "sweep")
SILENT_S = 0.5


class Started:
    """The names of the duties that have started, in their order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def duty(self, name: str, after_s: float = 0) -> Duty:
        async def duty(*arguments: Any, task_status: TaskStatus[None], **_: Any) -> None:
            await anyio.sleep(after_s)
            self.names.append(f"{name} {arguments[0]}" if name == "ingest" else name)
            task_status.started()
            await anyio.sleep_forever()

        duty.__name__ = name
        return duty


async def broken(*_: Any, task_status: TaskStatus[None]) -> None:
    raise KeyError("broken")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    started = Started()
    monkeypatch.setattr(supervisor, "START_S", 0.05)
    for name in (*ONE_DUTY_EACH, "ingest"):
        monkeypatch.setattr(supervisor, name, started.duty(name))
    monkeypatch.setattr(supervisor, "DUTIES", [started.duty(duty.__name__) for duty in supervisor.DUTIES])
    monkeypatch.setattr(FileParsing, "report_late", started.duty("report_late"))
    return started


async def start(within_s: float, has_started: Callable[[], bool], silent_s: float = SILENT_S) -> None:
    settings = Settings(postgres_dsn="", kafka_servers="", runner_silent_s=silent_s)
    held_leases = HeldLeases(Job(uuid4(), "here", 7, "test"))
    context = Context(settings, cast(Database, None), held_leases, Signals(), Outages(), {})
    with anyio.fail_after(within_s):
        async with anyio.create_task_group() as tg:
            await supervisor._start_duties(tg, context, cast(Parser, None))
            while not has_started():
                await anyio.sleep(0.01)
            tg.cancel_scope.cancel()


@pytest.mark.parametrize("name", ["renew_leases", "listen", "observe"])
async def test_a_duty_that_fails_before_it_has_started_keeps_no_other_from_starting(
    started: Started, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(supervisor, "observe", started.duty("observe"))
    expected = {*ONE_DUTY_EACH, "observe", "report_late", *(duty.__name__ for duty in supervisor.DUTIES)} - {name}
    broken.__name__ = name
    monkeypatch.setattr(supervisor, name, broken)

    await start(60, lambda: expected <= set(started.names))

    assert [each for each in started.names if each.startswith("ingest")] != []


async def test_the_sweep_waits_for_the_first_round_of_the_observer(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "observe", started.duty("observe", after_s=0.2))

    await start(60, lambda: "sweep" in started.names, silent_s=60)

    assert started.names[-2:] == ["observe", "sweep"]
