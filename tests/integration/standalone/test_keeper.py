"""The keeper of a standalone: which server starts again, and what is said about it."""

import os
import signal
import sys
from pathlib import Path
from typing import ClassVar

import anyio
import asyncpg
import pytest

from tests.waiting import until
from tidegate.daemon import outage
from tidegate.daemon.standalone import record
from tidegate.daemon.standalone.keeper import Keeper
from tidegate.daemon.standalone.kept_ports import KeptPorts
from tidegate.daemon.standalone.process import Child, ServerError, spawn
from tidegate.daemon.standalone.record import Recorder, ServerRecord, ServerState
from tidegate.daemon.standalone.server import Server


class Sleeper(Server):
    """A process that sleeps, and does not start while its folder has a file `broken`."""

    name: ClassVar[str] = "The sleeper"
    ports_needed: ClassVar[int] = 0
    refusals = 0
    broken_probes = 0
    unanswered = (asyncpg.InterfaceError,)

    async def _prepare(self) -> None:
        if (self.home / "broken").exists():
            self.refusals += 1
            if self.refusals == 1:
                raise RuntimeError("can't start new thread")
            raise ServerError(f"The sleeper is broken; the end of its log:\nat {anyio.current_time()}")

    async def _spawn(self, chosen: tuple[int, ...]) -> Child:
        assert chosen == ()
        command = (sys.executable, "-c", "import time; time.sleep(600)")
        return await spawn(command, log=self.log, cwd=self.home, env=os.environ, on_orphaned=signal.SIGKILL)

    async def _answers(self, child: Child, port: int) -> bool:
        if self.broken_probes:
            self.broken_probes -= 1
            raise asyncpg.InterfaceError("connection is closed")
        return child.alive and not port


def recorded(home: Path) -> ServerRecord:
    found = record.read(home)
    assert found is not None
    return found.servers["sleeper"]


async def test_a_server_is_started_until_it_works_and_each_reason_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage, "LONGEST_PAUSE_S", 0.2)
    said: list[str] = []
    keeper, server = Keeper(KeptPorts(tmp_path), Recorder(tmp_path), said.append), Sleeper(tmp_path / "sleeper")
    await keeper.start(server)
    first = recorded(tmp_path)

    async with anyio.create_task_group() as tg:
        tg.start_soon(keeper.keep, server)
        (server.home / "broken").touch()
        os.kill(server.pid, signal.SIGKILL)
        await until(lambda: server.refusals >= 3, 60)
        assert recorded(tmp_path).state is ServerState.RESTARTING
        server.broken_probes = 1
        (server.home / "broken").unlink()
        await until(lambda: recorded(tmp_path).state is ServerState.READY, 60)
        again = recorded(tmp_path)
        tg.cancel_scope.cancel()
    await server.stop()

    assert (first.restarts, again.restarts) == (0, 1)
    assert first.process != again.process
    assert said[1:4] == [
        f"The sleeper was ended by SIGKILL and starts again; its log is {server.log}",
        "RuntimeError: can't start new thread; it is tried again",
        "The sleeper is broken; it is tried again",
    ]
    assert said[4].startswith("The sleeper is ready again after ")
    assert len(said) == 5
