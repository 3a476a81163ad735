"""A process that has imported what the daemons of tests import, and forks one at each order: their imports take half a second.

`python -m tests.fork_server FD` where FD is a Unix seqpacket socket to the process that orders. It ends when that is closed, and
what it forked is killed then.
"""

import gc
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
from asyncio import Event, get_running_loop
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import cast

import msgspec
from anyio import CancelScope
from anyio.abc import Process

from tidegate.daemon.dagfiles.confine import die_with_parent
from tidegate.daemon.standalone.process import Child

ROOT = Path(__file__).parents[1]
PRELOADED = ("uvloop", "tests.storms.daemon", "tidegate.daemon.cli.app")
MAX_ORDER = 1 << 17


class Order(msgspec.Struct, frozen=True):
    """Become `python -m module arguments…`. The module has a `main`, which gets the arguments."""

    module: str
    arguments: Sequence[str]
    cwd: str
    env: Mapping[str, str]


class Forked:
    """Of a process, what `Child` asks for. The server tells the exit code; where it died, it took the process along."""

    def __init__(self, pid: int, report: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._report = report
        self._ended = Event()
        get_running_loop().add_reader(report, self._end)

    async def wait(self) -> int | None:
        await self._ended.wait()
        return self.returncode

    def _end(self) -> None:
        get_running_loop().remove_reader(self._report)
        with self._report:
            self.returncode = int(self._report.recv(16) or -signal.SIGKILL)
        self._ended.set()


class ForkServer:
    """The side of the process that orders."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "tests.fork_server", f"{theirs.fileno()}"]
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, cwd=ROOT, start_new_session=True
            )

    async def fork(self, order: Order, output: int) -> Process:
        """Start it, with its output to this descriptor."""
        report, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self._control, [msgspec.json.encode(order)], [output, theirs.fileno()])
        report.settimeout(0)
        with CancelScope(shield=True):  # else nothing would know of the process
            pid = int(await get_running_loop().sock_recv(report, 16))
        return cast("Process", Forked(pid, report))

    def close(self) -> None:
        self._control.close()
        self._process.wait()


@cache
def own() -> ForkServer:
    """The one of this process, started when the first daemon is."""
    return ForkServer()


def close() -> None:
    if own.cache_info().currsize:
        own().close()
        own.cache_clear()


async def spawn(module: str, arguments: Sequence[str], *, log: Path, cwd: Path, env: Mapping[str, str]) -> Child:
    """Start `python -m module`, as `spawn` of `standalone` does, with SIGKILL as its death signal."""
    with log.open("ab") as output:
        start = output.tell()
        return Child(await own().fork(Order(module, arguments, str(cwd), env), output.fileno()), log, start)


class Server:
    """The side of the server: forks, and tells the id and the exit code of each process."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._pid = os.getpid()
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._forked: dict[int, tuple[int, socket.socket]] = {}
        """By the descriptor of a process its id, and where to tell of it."""

    def serve(self) -> Order | None:
        """Return in each process that was forked, with what it becomes; in the server once the orders have ended, with None."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor in self._forked:
                    self._tell_end(descriptor)
                    continue
                message, descriptors, _, _ = socket.recv_fds(self._control, MAX_ORDER, 2)
                if not message:
                    return None
                if self._is_forked(*descriptors):
                    return msgspec.json.decode(message, type=Order)

    def _is_forked(self, output: int, told: int) -> bool:
        report = socket.socket(fileno=told)
        if (pid := os.fork()) == 0:
            self._leave(output, report)
            return True
        os.close(output)
        self._forked[descriptor := os.pidfd_open(pid)] = pid, report
        self._poll.register(descriptor, select.POLLIN)
        _send(report, pid)
        return False

    def _leave(self, output: int, report: socket.socket) -> None:
        """In the process that was forked: do what the leash of `standalone` does, and keep nothing of the server."""
        die_with_parent()
        if os.getppid() != self._pid:
            sys.exit("the fork server is gone")
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        for sock in (self._control, report, *(other for _, other in self._forked.values())):
            sock.close()
        for descriptor in self._forked:
            os.close(descriptor)

    def _tell_end(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        os.close(descriptor)
        pid, report = self._forked.pop(descriptor)
        _, status = os.waitpid(pid, 0)
        with report:
            _send(report, os.waitstatus_to_exitcode(status))


def _send(report: socket.socket, number: int) -> None:
    with suppress(BrokenPipeError):  # a test that failed does not wait for its processes
        report.send(b"%d" % number)


def main(control: str) -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()  # else looking for garbage would copy the memory that processes share
    if (order := Server(socket.socket(fileno=int(control))).serve()) is not None:
        become(order)


def become(order: Order) -> None:
    os.chdir(order.cwd)
    os.environ.clear()
    os.environ.update(order.env)
    sys.path[0] = order.cwd
    sys.argv = [order.module, *order.arguments]
    importlib.import_module(order.module).main(order.arguments)


if __name__ == "__main__":
    main(sys.argv[1])
