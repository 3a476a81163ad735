"""The daemon's client of the zygote: starts it, sends requests, replaces it when it dies."""

import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from subprocess import DEVNULL

import anyio
import structlog
from anyio.abc import Process

from tidegate.daemon.dag_access import DAG_READS, readable_paths, variables
from tidegate.daemon.dagfiles.isolation import Isolation, hints, means, reachable
from tidegate.daemon.dagfiles.message import Hello, Reply, Request, decode_hello, decode_reply, encode
from tidegate.schemas.error import UnavailableError

log = structlog.get_logger()

INHERITED = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH", "TZ")
"""The variables of the daemon's environment that a DAG file sees, beside the ones that `TIDEGATE_DAG_ENV` names."""

SERVER = "the parser of DAG files"
START_S = 30.0
STOP_S = 2.0
MAX_REPLY = 1 << 18


class GoneError(Exception):
    """The zygote or the minder of this request died without a reply."""


class Zygote:
    """A running zygote process and the socket to it."""

    def __init__(self, process: Process, control: socket.socket) -> None:
        self._process = process
        self._control = control

    async def run(self, request: Request, source: int, result: int, printed: int) -> Reply:
        """Run one file and wait until all of its processes ended; cancellation kills them. Raises GoneError."""
        ours, theirs = _socketpair()
        with ours, theirs:
            try:
                socket.send_fds(self._control, [encode(request)], [source, result, printed, theirs.fileno()])
            except OSError as error:
                raise GoneError from error
            theirs.close()
            return decode_reply(await _receive(ours))

    async def hello(self) -> Hello:
        """Wait until the zygote is ready; returns what isolates DAG files. Raises GoneError."""
        return decode_hello(await _receive(self._control))

    async def is_dead(self) -> bool:
        """Whether the zygote ended, after the end of a socket suggested it."""
        with anyio.move_on_after(0.2):
            await self._process.wait()
        return self._process.returncode is not None

    async def stop(self) -> None:
        """End the zygote and its sandboxes."""
        self._control.close()
        with anyio.move_on_after(STOP_S):
            await self._process.wait()
        if self._process.returncode is None:
            self._process.kill()
        await self._process.aclose()


class Zygotes:
    """The current zygote: started on demand, replaced after its death. `host` is what it says of its host."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._zygote: Zygote | None = None
        self.host = Hello(Isolation(), (), as_nobody=False)
        self._lock = anyio.Lock()
        self._warned = False

    async def current(self) -> Zygote:
        """The running zygote. Raises UnavailableError when none can be started."""
        async with self._lock:
            if self._zygote is None:
                self._zygote = await self._start()
            return self._zygote

    async def run(self, request: Request, source: int, result: int, printed: int) -> Reply:
        """Run one file, with one retry after GoneError. Raises GoneError or UnavailableError."""
        try:
            return await self._run(request, source, result, printed)
        except GoneError:
            for descriptor in (result, printed):
                os.ftruncate(descriptor, 0)
        return await self._run(request, source, result, printed)

    async def _run(self, request: Request, *descriptors: int) -> Reply:
        zygote = await self.current()
        try:
            return await zygote.run(request, *descriptors)
        except GoneError:
            await self._replace(zygote)
            raise

    async def stop(self) -> None:
        async with self._lock:
            if self._zygote is not None:
                await self._zygote.stop()
            self._zygote = None

    async def _start(self) -> Zygote:
        try:
            zygote = await start(self._environ)
        except OSError as error:
            raise UnavailableError(f"the parser of DAG files does not start: {error}", server=SERVER) from error
        try:
            with anyio.fail_after(START_S):
                self.host = await zygote.hello()
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await zygote.stop()
            if isinstance(error, GoneError | TimeoutError):
                raise UnavailableError("the parser of DAG files does not start", server=SERVER) from error
            raise
        if not self._warned:
            self._warned = warn(self.host)
        return zygote

    async def _replace(self, zygote: Zygote) -> None:
        if not await zygote.is_dead():
            return
        async with self._lock:
            if self._zygote is zygote:
                log.warning("dag_parser_died")
                await zygote.stop()
                self._zygote = None


@asynccontextmanager
async def open_zygotes(environ: Mapping[str, str]) -> AsyncIterator[Zygotes]:
    """Start a zygote. Raises UnavailableError if it does not start."""
    zygotes = Zygotes(environ)
    try:
        await zygotes.current()
        yield zygotes
    finally:
        with anyio.CancelScope(shield=True):
            await zygotes.stop()


def warn(host: Hello) -> bool:
    """Log what DAG files reach because of what is missing on this host; False if that is nothing."""
    if not (parts := reachable(host.isolation, as_nobody=host.as_nobody)):
        return False
    reason = "; ".join(dict.fromkeys(state.missing for state in means(host.isolation) if state.missing))
    log.warning("dag_files_not_isolated", reason=reason, reachable="; ".join(parts), hint=hints(host.isolation))
    return True


async def start(environ: Mapping[str, str]) -> Zygote:
    """Start a zygote with the `INHERITED` variables of `environ`, and with what its settings let DAG files read."""
    ours, theirs = _socketpair()
    shown = {**variables(environ), **{name: environ[name] for name in INHERITED if name in environ}}
    readable = readable_paths(environ.get(DAG_READS, ""))
    with theirs:
        process = await anyio.open_process(
            [sys.executable, "-P", "-m", "tidegate.daemon.dagfiles.zygote", str(theirs.fileno()), *readable],
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=None,
            cwd="/",
            # Sets must have the same order in every parse, or a DAG built from one would get a new version each time.
            env={**shown, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,
            pass_fds=[theirs.fileno()],
        )
    return Zygote(process, ours)


def _socketpair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(0)
    return ours, theirs


async def _receive(ours: socket.socket) -> bytes:
    await anyio.wait_readable(ours)
    try:
        message = ours.recv(MAX_REPLY)
    except OSError as error:
        raise GoneError from error
    if not message:
        raise GoneError
    return message
