"""The lifecycle of a server: start until ready, stop until ended, restart on the same port with the same data."""

import fcntl
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import anyio

from tidegate.daemon.spark.process import signal_name
from tidegate.daemon.standalone import port as ports
from tidegate.daemon.standalone.process import Child, ServerError

ATTEMPTS = 5
PROBE_S = 0.05

LOG_FOLLOWS = "; the end of "
"""Separates the reason of an error from the lines of a log."""


class Server(ABC):
    """A server on loopback that writes below `home` only.

    The port is chosen at the first start of the object, unless `port` was set before, and reused by later ones.
    `on_spawn` gets each process of the server, and its port. `on_slow` gets a line each time that `usual_s` have passed without
    an answer: a slow machine is no reason to give up a process that lives.
    """

    name: ClassVar[str]
    ports_needed: ClassVar[int] = 1
    usual_s: ClassVar[float] = 60.0
    stop_s: ClassVar[float] = 20.0
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    unanswered: ClassVar[tuple[type[Exception], ...]] = (OSError, TimeoutError)
    """The errors that `_answers` may raise instead of returning False: a server dies or stops at any statement of its probe."""

    recovering: ClassVar[tuple[type[Exception], ...]] = ()
    """Errors of `_answers` by which a server says that its start goes on: `usual_s` begins anew."""

    def __init__(self, home: Path) -> None:
        self.home = home.absolute()
        self.log = self.home / "server.log"
        self.port = 0
        self._was_ready = False
        self.on_spawn: Callable[[Child, int], None] = lambda *_: None
        self.on_slow: Callable[[str], None] = lambda _: None
        self._held = ExitStack()
        self._child: Child | None = None

    @property
    def process(self) -> Child:
        """Raises ServerError before the first start."""
        if self._child is None:
            raise ServerError(f"{self.name} has not been started")
        return self._child

    @property
    def pid(self) -> int:
        return self.process.pid

    async def start(self) -> None:
        """Return when the server is ready. Raises ServerError with the end of the log."""
        if self._child is not None and not self._child.alive:
            self._held.close()
        self._held.enter_context(exclusive(self.home, "choose another directory"))
        try:
            await self._prepare()
            self.port = await self._launch()
            self._was_ready = True
        except BaseException:
            self._held.close()
            raise

    async def stop(self) -> None:
        """Stop the server; kill it after `stop_s`."""
        await self._end(self.stop_signal)

    async def kill(self) -> None:
        """Kill the server, as a crash would."""
        await self._end(signal.SIGKILL)

    async def ended(self) -> str:
        """Return when the server has ended: `was ended by SIGKILL`."""
        await self.process.process.wait()
        return ending(self.process)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()

    @abstractmethod
    async def _prepare(self) -> None:
        """Create the files that the server needs."""

    @abstractmethod
    async def _spawn(self, chosen: tuple[int, ...]) -> Child: ...

    @abstractmethod
    async def _answers(self, child: Child, port: int) -> bool:
        """Whether this server does real work on this port."""

    def _choose_ports(self) -> tuple[int, ...]:
        """Clients know the port of a server that was ready. Another one gets a new port when its own is taken."""
        is_free = not self.port or ports.is_free(self.port)
        if not is_free and self._was_ready:
            raise ServerError(
                f"{self.name} cannot have port {self.port} on {ports.LOOPBACK}: {ports.listener(self.port)} listens there;"
                " end it, or stop the standalone and start it again, which gives the server a new port"
            )
        if not self.port or not is_free:
            return ports.choose(self.ports_needed)
        return (self.port, *ports.choose(self.ports_needed - 1))

    async def _launch(self) -> int:
        """Start and return the port; choose others when another process was faster to bind one."""
        for _ in range(ATTEMPTS):
            chosen = self._choose_ports()
            port = chosen[0] if chosen else 0
            child = self._child = await self._spawn(chosen)
            try:
                self.on_spawn(child, port)
                await self._until_it_answers(child, port)
            except BaseException as error:
                await child.end(signal.SIGKILL, self.stop_s)
                if isinstance(error, ServerError) and not all(map(ports.is_free, chosen)):
                    continue
                raise
            return port
        raise ServerError(f"{self.name} found no free port on {ports.LOOPBACK} in {ATTEMPTS} attempts")

    async def _until_it_answers(self, child: Child, port: int) -> None:
        """Race the probe against the end of the child, because a probe of a dead child may hang."""
        answered = anyio.Event()

        async def probe() -> None:
            while not answered.is_set():
                with anyio.move_on_after(self.usual_s):
                    if await self._probe(child, port, slow):
                        answered.set()
                slow.tell()
                await anyio.sleep(0 if answered.is_set() else PROBE_S)
            group.cancel_scope.cancel()

        slow = _SlowStart(self, child)
        async with anyio.create_task_group() as group:
            group.start_soon(probe)
            await child.process.wait()
            group.cancel_scope.cancel()
        if not answered.is_set():
            raise ServerError(f"{self.name} {ending(child)} while starting{self._log_end(child)}")

    async def _probe(self, child: Child, port: int, slow: "_SlowStart") -> bool:
        try:
            return await self._answers(child, port)
        except self.recovering:
            slow.begin()
        except self.unanswered:
            pass
        return False

    async def _end(self, how: signal.Signals) -> None:
        if self._child is not None:
            await self._child.end(how, self.stop_s)
        self._held.close()

    def _log_end(self, child: Child) -> str:
        tail = child.tail()
        return f"{LOG_FOLLOWS}{self.log}:\n{tail}" if tail else f"; {self.log} is empty"


class _SlowStart:
    """Tells that a server takes longer than usual to answer, each time that as long has passed again."""

    def __init__(self, server: Server, child: Child) -> None:
        self._server = server
        self._child = child
        self._began = anyio.current_time()
        self.begin()

    def begin(self) -> None:
        """The server says that its start goes on."""
        self._tell_at = anyio.current_time() + self._server.usual_s

    def tell(self) -> None:
        if (now := anyio.current_time()) > self._tell_at and self._child.alive:
            waits = (
                f"{self._server.name} (process {self._child.pid}) has not answered for {now - self._began:.0f} s, and still runs"
            )
            self._server.on_slow(f"{waits}: waiting for it; Ctrl-C gives up. Its log is {self._server.log}")
            self.begin()


@contextmanager
def exclusive(directory: Path, advice: str) -> Iterator[None]:
    """Create and lock the directory, at most until this process ends; children do not inherit the lock.

    Raises ServerError, with the advice, when the directory cannot be used or another process holds the lock.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = (directory / ".lock").open("a+")
    except OSError as error:
        raise ServerError(f"{directory} cannot be used: {error.strerror}; {advice}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            owner = file.read() or "unknown"
            raise ServerError(f"{directory} is in use (process {owner}): stop that process, or {advice}") from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def ending(child: Child) -> str:
    """`ended with exit code 1`, `was ended by SIGKILL`. Only for one that ended."""
    code = child.process.returncode or 0
    return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal_name(-code)}"
