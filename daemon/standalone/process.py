"""A child process on a leash: it cannot outlive us, its output goes to a file, and it ends with everything it started."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL

import anyio
import psutil
from anyio.abc import Process

from tidegate.schemas.error import TidegateError

LEASH = Path(__file__).with_name("leash.py")
TAIL_LINES = 20
TAIL_BYTES = 64 * 1024
GONE_S = 10.0


class ServerError(TidegateError):
    """A server of ours cannot start, or died; the message says which, why and what to do, with the end of its log."""


class Child:
    """One started process. `log` holds its output and that of earlier ones; `tail()` only its own."""

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
        with self.log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(self._log_start, end - TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        return "\n".join(lines[-TAIL_LINES:])

    async def outcome(self) -> int:
        """Wait for it and return its exit code; cancellation ends it."""
        try:
            return await self.process.wait()
        finally:
            await self.end(signal.SIGKILL, 0)

    def send_signal(self, number: signal.Signals) -> None:
        """Nothing happens if it has ended."""
        if self.alive:
            with suppress(ProcessLookupError):
                # Not by the process object: before Python 3.13 that may take the exit code away from asyncio (gh-87744).
                os.kill(self.pid, number)

    async def end(self, ask: signal.Signals, within_s: float) -> None:
        """Ask, then kill; return when the process and all its descendants are gone. Cancellation waits for that."""
        with anyio.CancelScope(shield=True):
            family = descendants(self.pid) if self.alive else []
            self.send_signal(ask)
            with anyio.move_on_after(within_s):
                await self.process.wait()
            self.send_signal(signal.SIGKILL)
            await self.process.wait()
            await _outlast(family)


async def spawn(
    command: Sequence[str], *, log: Path, cwd: Path, env: Mapping[str, str], on_orphaned: signal.Signals, user: str = "-"
) -> Child:
    """Start a command whose death signal is `on_orphaned`.

    The kernel ties the leash to the calling thread: call this from the thread that lives as long as the child shall.
    """
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


def descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


async def _outlast(family: Sequence[psutil.Process]) -> None:
    """Wait until they are gone; who does not go by himself is killed."""
    for process in await _left(family, GONE_S / 2):
        process.kill()
    await _left(family, GONE_S / 2)


async def _left(family: Sequence[psutil.Process], within_s: float) -> list[psutil.Process]:
    """Those that still run after that time."""
    left = list(filter(runs, family))
    with anyio.move_on_after(within_s):
        while left:
            await anyio.sleep(0.01)
            left = list(filter(runs, left))
    return left


def runs(process: psutil.Process) -> bool:
    """False for zombies: they hold nothing and are their parent's to reap."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
