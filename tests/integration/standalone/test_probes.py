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
    """A Postgres that replays its log for longer than a server may say nothing."""

    start_s = 3.0
    ready_at = 0.0

    async def _prepare(self) -> None:
        self.ready_at = anyio.current_time() + 1.2 * self.start_s

    async def _spawn(self, chosen: tuple[int, ...]) -> Child:
        assert len(chosen) == 1
        return await spawn(SLEEP, log=self.log, cwd=self.home, env={}, on_orphaned=signal.SIGKILL)

    async def _answers(self, child: Child, port: int) -> bool:
        if anyio.current_time() < self.ready_at:
            raise asyncpg.CannotConnectNowError("the database system is starting up")
        return child.alive and bool(port)


async def test_a_server_is_not_killed_while_it_says_that_it_recovers(tmp_path: Path) -> None:
    async with Recovering(tmp_path / "home") as server:
        assert anyio.current_time() >= server.ready_at
