"""The daemon as a server of standalone."""

import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import asyncpg

from tidegate.daemon.postgres.primary import REFUSALS, connect
from tidegate.daemon.settings import environment
from tidegate.daemon.standalone.process import Child, inherited, spawn
from tidegate.daemon.standalone.server import Server

STARTED = "SELECT EXISTS (SELECT FROM live_job WHERE pid = $1)"

COMMAND = (sys.executable, "-m", "tidegate.daemon")


class Daemon(Server):
    """A `tidegate daemon` with these settings, named as in `Settings`. It is ready after its first lease renewal.

    `command` replaces the command that starts it.
    """

    name: ClassVar[str] = "The daemon"
    ports_needed: ClassVar[int] = 0
    unanswered = (*REFUSALS, asyncpg.InterfaceError)

    def __init__(self, home: Path, settings: Mapping[str, str], command: Sequence[str] = COMMAND) -> None:
        super().__init__(home)
        self._settings = settings
        self._command = command

    async def _prepare(self) -> None:
        return

    async def _spawn(self, chosen: tuple[int, ...]) -> Child:  # noqa: ARG002 - it listens on none
        env = environment_of(self._settings)
        return await spawn(self._command, log=self.log, cwd=self.home, env=env, on_orphaned=signal.SIGTERM)

    async def _answers(self, child: Child, port: int) -> bool:  # noqa: ARG002 - it listens on none
        connection = await connect(self._settings["postgres_dsn"], timeout=5)
        try:
            return bool(await connection.fetchval(STARTED, child.pid))
        finally:
            await connection.close()


def environment_of(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of this process, with these settings instead of its own."""
    return inherited() | environment(settings)
