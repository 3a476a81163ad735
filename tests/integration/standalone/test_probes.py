"""Probes of servers while what they ask is there only in part."""

import signal
import sys
from pathlib import Path

import anyio
import asyncpg
import pytest

from tidegate.daemon.standalone.daemon import Daemon
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.daemon.standalone.process import Child, ServerError, spawn

SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")


async def test_a_statement_that_fails_is_no_answer(empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Daemon, "start_s", 0.3)

    with pytest.raises(ServerError, match=r"^The daemon did not answer within 0.3 s"):
        await Daemon(tmp_path / "daemon", {"postgres_dsn": empty_dsn}, SLEEP).start()


class Recovering(Postgres):
    """A Postgres that says twice that it replays its log. `deadlines`: until when it may say nothing, at each probe."""

    start_s = 600.0

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.deadlines: list[float] = []

    async def _prepare(self) -> None:
        """It has all files."""

    async def _spawn(self, chosen: tuple[int, ...]) -> Child:
        assert len(chosen) == 1
        return await spawn(SLEEP, log=self.log, cwd=self.home, env={}, on_orphaned=signal.SIGKILL)

    async def _answers(self, child: Child, port: int) -> bool:
        self.deadlines.append(anyio.current_effective_deadline())
        if len(self.deadlines) < 3:
            raise asyncpg.CannotConnectNowError("the database system is starting up")
        return child.alive and bool(port)


async def test_a_server_is_not_killed_while_it_says_that_it_recovers(tmp_path: Path) -> None:
    async with Recovering(tmp_path / "home") as server:
        first, second, third = server.deadlines

    assert first < second < third
