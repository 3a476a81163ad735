"""The web pages and the API as a server of standalone."""

import signal
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import httpx

from tidegate.daemon.standalone import port as ports
from tidegate.daemon.standalone.daemon import environment_of
from tidegate.daemon.standalone.process import Child, spawn
from tidegate.daemon.standalone.server import Server

COMMAND = (sys.executable, "-m", "tidegate.daemon.cli", "web")

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of http addresses: httpx reads all certificate authorities for any other client, and takes tens of milliseconds."""


class Web(Server):
    """A `tidegate web` with these settings, named as in `Settings`. It gets the port `wanted` if that is free, else another."""

    name: ClassVar[str] = "The web page"

    def __init__(self, home: Path, settings: Mapping[str, str], wanted: int) -> None:
        super().__init__(home)
        self._settings = settings
        self._wanted = wanted

    @property
    def address(self) -> str:
        return f"http://{ports.LOOPBACK}:{self.port}"

    async def _prepare(self) -> None:
        if not self.port and self._wanted and ports.is_free(self._wanted):
            self.port = self._wanted

    async def _spawn(self, chosen: tuple[int, ...]) -> Child:
        settings = {**self._settings, "web_host": ports.LOOPBACK, "web_port": str(chosen[0])}
        return await spawn(COMMAND, log=self.log, cwd=self.home, env=environment_of(settings), on_orphaned=signal.SIGTERM)

    async def _answers(self, child: Child, port: int) -> bool:
        if not ports.listens(child.pid, port):
            return False
        try:
            async with httpx.AsyncClient(verify=NO_TLS, timeout=5) as client:
                return (await client.get(f"http://{ports.LOOPBACK}:{port}/login")).is_success
        except httpx.TransportError:
            return False
