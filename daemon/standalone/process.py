"""Child processes that die with their parent, write to a log file, and end with all of their descendants."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL

import anyio
import psutil
from anyio.abc import Process

from tidegate.daemon.settings import PREFIX
from tidegate.daemon.spark.process import tail
from tidegate.schemas.error import TidegateError

LEASH = Path(__file__).with_name("leash.py")
TAIL_LINES = 20
MAX_LOG_BYTES = 64 << 20
GONE_S = 10.0


class ServerError(TidegateError):
    """A server did not start or died; the message says which, why and what to do, with the end of its log."""


def installed(package: str, what: str) -> Path:
    """The folder of a package, found without an import, which may be slow or warn. Raises ServerError without the package."""
    found = find_spec(package)
    if found is None or found.origin is None:
        raise ServerError(f"{what} is not installed: pip install 'tidegate[standalone]'")
    return Path(found.origin).parent


def inherited() -> dict[str, str]:
    """The environment of this process without settings, which have secrets: tasks can read the environment of servers."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


class Child:
    """A started process. `log` also has the output of earlier processes; `tail()` only that of this one."""

    def __init__(self, process: Process, log: Path, log_start: int) -> None:
        self.process = process
        self.log = log
        self._log_start = log_start

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.returncode is None

    def tail(self) -> str:
        """The last lines of its output."""
        return "\n".join(tail(self.log, self._log_start).splitlines()[-TAIL_LINES:])

    async def outcome(self) -> int:
        """Wait for the exit code; cancellation kills the process."""
        try:
            return await self.process.wait()
        finally:
            await self.end(signal.SIGKILL, 0)

    def send_signal(self, number: signal.Signals) -> None:
        """Does nothing when the process has ended."""
        if self.alive:
            with suppress(ProcessLookupError):
                # Not by the process object: before Python 3.13 it may reap the exit code before asyncio does (gh-87744).
                os.kill(self.pid, number)

    async def end(self, ask: signal.Signals, within_s: float) -> None:
        """Signal, then kill; return when the process and all descendants ended. Shielded from cancellation."""
        with anyio.CancelScope(shield=True):
            family = descendants(self.pid) if self.alive else []
            self.send_signal(ask)
            with anyio.move_on_after(within_s):
                await self.process.wait()
            self.send_signal(signal.SIGKILL)
            await self.process.wait()
            await _end_all(family)


async def spawn(
    command: Sequence[str], *, log: Path, cwd: Path, env: Mapping[str, str], on_orphaned: signal.Signals, user: str = "-"
) -> Child:
    """Start a command whose death signal is `on_orphaned`.

    The death signal is sent at the end of the calling thread, so that thread must live as long as the child.
    A log of more than `MAX_LOG_BYTES` goes on in a new file, and the former one is kept beside it until the next time.
    """
    _begin_anew(log)
    leash = (sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), str(int(on_orphaned)), user)
    async with await anyio.open_file(log, "ab") as output:
        start = await output.tell()
        process = await anyio.open_process(
            [*leash, *command],
            stdin=DEVNULL,
            stdout=output.wrapped,
            stderr=output.wrapped,
            cwd=cwd,
            env=dict(env),  # uvloop takes nothing else
            start_new_session=True,
        )
    return Child(process, log, start)


def _begin_anew(log: Path) -> None:
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(log.with_name(f"{log.name}.1"))


def descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


async def _end_all(family: Sequence[psutil.Process]) -> None:
    """Wait for the end of the processes; kill the processes that do not end."""
    for process in await _left(family, GONE_S / 2):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    await _left(family, GONE_S / 2)


async def _left(family: Sequence[psutil.Process], within_s: float) -> list[psutil.Process]:
    """The processes that still run after that time."""
    left = list(filter(runs, family))
    with anyio.move_on_after(within_s):
        while left:
            await anyio.sleep(0.01)
            left = list(filter(runs, left))
    return left


def runs(process: psutil.Process) -> bool:
    """False for zombies, which hold no resources."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
