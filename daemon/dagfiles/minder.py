"""Minds sandboxes: forks them, kills them at the time limit or when the daemon closes the socket, and replies when they ended."""

import math
import os
import select
import signal
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NoReturn

from tidegate.daemon.dagfiles.execute import Host, execute
from tidegate.daemon.dagfiles.message import Reply, Request, encode

GRACE_S = 0.5
"""Time for a file to end after the interrupt at its wall-clock limit."""

MAX_PAUSE_MS = 60_000
"""The longest wait for an event; `poll` takes no more than some weeks."""


class Sandbox:
    """The first process of a sandbox. `ended` is readable when it ended, `reply` when the daemon waits no more."""

    def __init__(self, pid: int, ended: int, reply: int, wall_s: float) -> None:
        self.pid = pid
        self.ended = ended
        self.reply = reply
        self.kill_at = time.monotonic() + wall_s + GRACE_S
        self.is_killed = False
        self.timed_out = False

    @property
    def awaited(self) -> tuple[int, ...]:
        """The descriptors to wait for."""
        return (self.ended,) if self.is_killed else (self.ended, self.reply)

    def kill(self, *, timed_out: bool) -> None:
        self.is_killed, self.timed_out = True, timed_out
        self.kill_group()
        os.kill(self.pid, signal.SIGKILL)

    def kill_group(self) -> None:
        """Kill its process group, which it has made unless it has just begun."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


class Minder:
    """Minds the sandboxes that this process forks, by `fork`. None of them gets the descriptors `kept`.

    `clean_up` ends what a sandbox left running. A process that does not end when it is killed delays its own reply alone.
    """

    def __init__(self, fork: Callable[[], int], clean_up: Callable[[], None], kept: Collection[int]) -> None:
        self._fork = fork
        self._clean_up = clean_up
        self._kept = kept
        self.sandboxes: list[Sandbox] = []

    def start(self, request: Request, descriptors: Sequence[int], host: Host) -> None:
        """Fork a sandbox for the file. Raises OSError, also for a sandbox that it could not mind, which it ends."""
        source, result, printed, reply = descriptors
        if (pid := self._fork()) == 0:
            self._become(request, (source, result, printed), (reply, *self._own()), host)
        try:
            self.sandboxes.append(Sandbox(pid, *_descriptors(pid, reply), request.limits.wall_s))
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise

    def wait(self, *also: int) -> Collection[int]:
        """Wait for the next event, and act on those of sandboxes; returns what is readable, of `also` too."""
        events = select.poll()
        for descriptor in (*also, *(awaited for sandbox in self.sandboxes for awaited in sandbox.awaited)):
            events.register(descriptor, select.POLLIN)
        readable = {descriptor for descriptor, _ in events.poll(self._pause_ms())}
        for sandbox in tuple(self.sandboxes):
            self._tend(sandbox, readable)
        return readable

    def _tend(self, sandbox: Sandbox, readable: Collection[int]) -> None:
        timed_out = time.monotonic() >= sandbox.kill_at
        if sandbox.ended in readable:
            self._reply(sandbox)
        elif not sandbox.is_killed and (timed_out or sandbox.reply in readable):
            sandbox.kill(timed_out=timed_out)

    def _reply(self, sandbox: Sandbox) -> None:
        """Tell the daemon how a sandbox ended, after all of its processes did."""
        self.sandboxes.remove(sandbox)
        sandbox.kill_group()
        _, status, used = os.wait4(sandbox.pid, 0)
        self._clean_up()
        cpu_s = used.ru_utime + used.ru_stime
        with suppress(BrokenPipeError):
            os.write(sandbox.reply, encode(Reply(os.waitstatus_to_exitcode(status), sandbox.timed_out, cpu_s)))
        os.close(sandbox.ended)
        os.close(sandbox.reply)

    def _become(self, request: Request, files: tuple[int, int, int], others: Collection[int], host: Host) -> NoReturn:
        try:
            for descriptor in others:
                os.close(descriptor)
            execute(request, *files, host)
        finally:
            os._exit(0)

    def _own(self) -> list[int]:
        return [*self._kept, *(each for sandbox in self.sandboxes for each in (sandbox.ended, sandbox.reply))]

    def _pause_ms(self) -> int | None:
        due = [sandbox.kill_at for sandbox in self.sandboxes if not sandbox.is_killed]
        return min(max(0, math.ceil((min(due) - time.monotonic()) * 1000)), MAX_PAUSE_MS) if due else None


def _descriptors(pid: int, reply: int) -> tuple[int, int]:
    """What is readable when the process has ended, and a duplicate of `reply`. Raises OSError, and opens none then."""
    ended = os.pidfd_open(pid)
    try:
        return ended, os.dup(reply)
    except OSError:
        os.close(ended)
        raise
