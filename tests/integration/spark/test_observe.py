"""A round of observation: heartbeats and ends of all attempts, however long the kills of some take."""

import math
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import UUID

import anyio
import msgspec
import pytest
from structlog.testing import capture_logs

from tests.integration.cli.history import HOST, History
from tests.integration.spark.dispatching import Daemon, Far
from tests.servers import MakeSettings
from tests.waiting import until
from tidegate.daemon.context import Context
from tidegate.daemon.duties.observe import observe
from tidegate.daemon.duties.sweep import SilentAttempts
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.spark.contract import Handle, Phase, Status
from tidegate.schemas.error import TooSlowError, UnavailableError

TASKS = 5
WITHIN_S = 60.0
FILE = f"""
from tidegate import Dag, Dataset
with Dag("d", schedule=Dataset("s://a")) as dag:
    for number in range({TASKS}):
        dag.command(f"t{{number}}", ["true"])
"""
AWAY = UnavailableError("away", server="far")
SILENT_FOR_LONG = "UPDATE submission SET heartbeat_at = now() - interval '1 hour'"
HEARD = "SELECT count(*) FROM submission WHERE heartbeat_at > now() - interval '1 minute'"


class Alive(Far):
    """All attempts but the `ended` ones run, with heartbeats; kills take for ever, or fail. Away after `reachable_rounds`."""

    def __init__(self) -> None:
        super().__init__()
        self.killing: list[Handle] = []
        self.rounds, self.reachable_rounds = 0, math.inf
        self.error: Exception | None = None
        self.phase, self.is_full = Phase.RUNNING, False
        self.confirmed: list[set[int | None]] = []
        self.ended: set[UUID] = set()

    async def status(self, handles: Mapping[UUID, Handle]) -> Mapping[UUID, Status]:
        self.rounds += 1
        if self.rounds > self.reachable_rounds:
            raise AWAY
        ended = dict.fromkeys(self.ended, Status(phase=Phase.SUCCEEDED))
        return dict.fromkeys(handles, Status(phase=self.phase, heartbeat_age_s=1.0)) | ended

    async def confirm(self, recorded: Mapping[UUID, int | None]) -> None:
        self.confirmed.append(set(recorded.values()))
        if self.is_full:
            raise UnavailableError("No space left on device", server="the spool")

    async def kill(self, handle: Handle) -> None:
        self.killing.append(handle)
        if self.error is not None:
            raise self.error
        await anyio.sleep_forever()


@pytest.fixture
async def daemon(settings: MakeSettings) -> AsyncIterator[Context]:
    """An observer of five attempts, four of them to be killed."""
    mine = settings(host=HOST, sweep_s=0.05, runner_silent_s=60)
    async with connect(mine.postgres_dsn) as database:
        history = History(database)
        await history.file(FILE)
        await history.updated("s://a")
        await history.attempts_begin()
        doomed = "UPDATE submission SET desired_state = 'kill', kill_reason = 'a test' WHERE task_index > 0"
        await database.pool.execute(doomed)
        yield msgspec.structs.replace(Daemon(mine, database).context, backends={"command": Alive()})


def alive(context: Context) -> Any:
    return context.backends["command"]


async def until_heard(context: Context) -> None:
    async def heard() -> bool:
        return bool(await context.database.pool.fetchval(HEARD) >= TASKS)

    await until(heard, WITHIN_S)


async def test_kills_that_take_long_delay_neither_each_other_nor_heartbeats(daemon: Context) -> None:
    sweep = SilentAttempts()
    async with anyio.create_task_group() as tg:
        await tg.start(observe, daemon)
        for _ in range(2):
            await daemon.database.pool.execute(SILENT_FOR_LONG)
            await until_heard(daemon)
            await sweep.fail_silent_attempts(daemon)
        tg.cancel_scope.cancel()

    assert len(alive(daemon).killing) == TASKS - 1
    assert await daemon.database.pool.fetchval("SELECT count(*) FROM submission WHERE state = 'accepted'") == TASKS


async def test_a_backend_that_is_away_for_a_kill_and_for_the_next_rounds_has_one_outage(daemon: Context) -> None:
    alive(daemon).error, alive(daemon).reachable_rounds = AWAY, 1

    with capture_logs() as logs:
        async with anyio.create_task_group() as tg:
            await tg.start(observe, daemon)
            await until(lambda: alive(daemon).rounds > 3, WITHIN_S)
            tg.cancel_scope.cancel()

    assert [line["event"] for line in logs if line.get("server") == "far"] == ["server_lost"]


async def test_an_end_that_is_too_slow_delays_no_kill(daemon: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(*_: Any) -> None:
        raise TooSlowError("canceling statement due to statement timeout", server="Postgres")

    monkeypatch.setattr(Context, "submit_messages", slow)
    alive(daemon).ended.add(await daemon.database.pool.fetchval("SELECT submission_id FROM submission WHERE task_index = 0"))

    async with anyio.create_task_group() as tg:
        await tg.start(observe, daemon)
        await until(lambda: len(alive(daemon).killing) == TASKS - 1, WITHIN_S)
        away = set(daemon.outages.away)
        tg.cancel_scope.cancel()

    assert away == {"Postgres"}


async def test_a_spool_that_is_full_delays_no_kill(daemon: Context) -> None:
    """Heartbeats are not confirmed, and an attempt whose daemon has ended waits for its confirmation."""
    alive(daemon).phase, alive(daemon).is_full = Phase.PENDING, True
    await daemon.database.pool.execute(SILENT_FOR_LONG)

    async with anyio.create_task_group() as tg:
        await tg.start(observe, daemon)
        await until(lambda: len(alive(daemon).killing) == TASKS - 1, WITHIN_S)
        tg.cancel_scope.cancel()

    assert set(daemon.outages.away) == {"the spool"}
    assert len(alive(daemon).confirmed) >= 2


@pytest.mark.parametrize("error", [AWAY, KeyError("ours")])
async def test_a_kill_that_fails_is_repeated_and_delays_nothing(daemon: Context, error: Exception) -> None:
    alive(daemon).error = error

    async with anyio.create_task_group() as tg:
        await tg.start(observe, daemon)
        with anyio.fail_after(WITHIN_S):
            while len(alive(daemon).killing) < 3 * TASKS:
                await anyio.sleep(0.02)
        away = set(daemon.outages.away)
        await daemon.database.pool.execute(SILENT_FOR_LONG)
        await until_heard(daemon)
        await daemon.database.pool.execute("UPDATE submission SET desired_state = 'run'")
        with anyio.fail_after(WITHIN_S):
            while daemon.outages.away:
                await anyio.sleep(0.02)
        tg.cancel_scope.cancel()

    assert away == ({"far"} if isinstance(error, UnavailableError) else set())


async def test_attempts_of_a_held_dag_have_heartbeats_and_neither_ends_nor_kills(daemon: Context) -> None:
    await daemon.database.pool.execute("UPDATE dag SET held_since = now(), hold_reason = 'a test'")
    await daemon.database.pool.execute(SILENT_FOR_LONG)

    async with anyio.create_task_group() as tg:
        await tg.start(observe, daemon)
        await until_heard(daemon)
        await anyio.sleep(0.2)
        tg.cancel_scope.cancel()

    assert alive(daemon).killing == []
