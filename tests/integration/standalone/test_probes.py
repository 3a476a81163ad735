"""Probes of servers while what they ask is there only in part."""

import signal
import sys
from pathlib import Path

import anyio
import asyncpg
import pytest

from tidegate.daemon.standalone.daemon import Daemon
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.daemon.standalone.process import Child, spawn

SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")


async def test_a_statement_that_fails_is_no_answer(empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Daemon, "usual_s", 0.3)
    daemon, told = Daemon(tmp_path / "daemon", {"postgres_dsn": empty_dsn}, SLEEP), list[str]()
    daemon.on_slow = told.append

    with anyio.move_on_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(daemon.start)
            while not told:
                await anyio.sleep(0.05)
            group.cancel_scope.cancel()

    assert told[0].startswith("The daemon (process ")


class Recovering(Postgres):
    """A Postgres that says ten times that it replays its log."""

    usual_s = 0.3

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.probes = 0

    async def _prepare(self) -> None:
        """It has all files."""

    async def _spawn(self, chosen: tuple[int, ...]) -> Child:
        assert len(chosen) == 1
        return await spawn(SLEEP, log=self.log, cwd=self.home, env={}, on_orphaned=signal.SIGKILL)

    async def _answers(self, child: Child, port: int) -> bool:
        self.probes += 1
        if self.probes <= 10:
            raise asyncpg.CannotConnectNowError("the database system is starting up")
        return child.alive and bool(port)


async def test_a_server_that_says_that_it_recovers_is_not_told_as_slow(tmp_path: Path) -> None:
    server, told = Recovering(tmp_path / "home"), list[str]()
    server.on_slow = told.append
    async with server:
        assert server.probes == 11

    assert told == []
