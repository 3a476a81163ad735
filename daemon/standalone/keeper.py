"""Starts servers, keeps their ports, and starts a server again that died."""

from collections.abc import Mapping
from functools import partial
from typing import NoReturn

import anyio

from tidegate.daemon.outage import STEADY_S, Backoff
from tidegate.daemon.restart import first_of
from tidegate.daemon.spark.process import identify
from tidegate.daemon.standalone.kept_ports import KeptPorts
from tidegate.daemon.standalone.process import Child
from tidegate.daemon.standalone.record import Recorder, Say, ServerRecord, ServerState, now, told, untold
from tidegate.daemon.standalone.server import LOG_FOLLOWS, Server
from tidegate.schemas.error import FATAL, TidegateError, described


class Keeper:
    """Starts and restarts servers. Says and records what becomes of them."""

    def __init__(self, ports: KeptPorts, recorder: Recorder, say: Say) -> None:
        self._ports = ports
        self._recorder = recorder
        self._say = say

    async def start(self, server: Server) -> None:
        """Return when the server is ready. Raises ServerError."""
        began_at = anyio.current_time()
        self._recorder.enter(server.home.name, ServerRecord(name=server.name, log=str(server.log), since=now()))
        self._ports.propose(server)
        server.on_spawn = partial(self._record_process, server)
        server.on_slow = self._say
        await server.start()
        self._ports.keep(server)
        self._record_ready(server)
        self._say(f"{server.name} is ready after {anyio.current_time() - began_at:.1f} s")

    def announce(self, settings: Mapping[str, str], web: str) -> None:
        """All servers are ready: commands may use them. The record gets no secrets."""
        self._recorder.change(settings=told(settings), untold=untold(settings), web=web)

    async def keep(self, server: Server) -> NoReturn:
        """Start the server again whenever it ends. Pauses grow while it ends within `STEADY_S`, or does not start."""
        backoff = Backoff()
        while True:
            ready_at = anyio.current_time()
            how = await server.ended()
            if anyio.current_time() - ready_at > STEADY_S:
                backoff.reset()
            self._recorder.restarted(server.home.name)
            self._say(f"{server.name} {how} and starts again; its log is {server.log}")
            await self._start_again(server, backoff)

    async def _start_again(self, server: Server, backoff: Backoff) -> None:
        """Try until the server is ready. Each reason of a failure is said once."""
        died_at, said = anyio.current_time(), ""
        while True:
            await backoff.pause()
            try:
                await server.start()
            except* FATAL:
                raise
            except* Exception as group:  # noqa: BLE001 - any fault of a start concerns this server alone
                if (reason := _reason(first_of(group))) != said:
                    self._say(f"{reason}; it is tried again")
                said = reason
            else:
                break
        self._record_ready(server)
        self._say(f"{server.name} is ready again after {anyio.current_time() - died_at:.1f} s")

    async def keep_record(self) -> NoReturn:
        """Commands that wait for an announcement get it once a full disk has room."""
        await self._recorder.keep_written()

    def _record_process(self, server: Server, child: Child, port: int) -> None:
        self._ports.tell(server, port, self._say)
        self._recorder.change_server(server.home.name, process=identify(child.pid), port=port)

    def _record_ready(self, server: Server) -> None:
        self._recorder.change_server(server.home.name, state=ServerState.READY, since=now())


def _reason(error: Exception) -> str:
    return (str(error) if isinstance(error, TidegateError) else described(error)).partition(LOG_FOLLOWS)[0]
