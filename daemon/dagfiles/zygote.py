"""The zygote: a small process, warm and single-threaded, that forks a sandbox for each DAG file.

`python -m tidegate.daemon.dagfiles.zygote FD` where FD is a Unix seqpacket socket to the daemon. It holds no
secrets: its environment is an allow-list, it opens no file, it has no network. It refuses inspection, for the sake of the socket,
and ends when the socket is closed.

For each request it forks a minder, which forks the sandbox, enforces the wall clock, and replies when all processes ended.
"""

import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path

from tidegate.daemon.dagfiles.confine import (
    adopt_orphans,
    die_with_parent,
    enter_process_namespace,
    leave_network,
    process_limit,
    refuse_inspection,
)
from tidegate.daemon.dagfiles.execute import execute
from tidegate.daemon.dagfiles.message import Hello, Reply, Request, decode_request, encode

DESCRIPTORS = 4
MAX_REQUEST = 65_536
GRACE_S = 0.5
"""Time for a file to end after the interrupt at its wall-clock limit."""

COUNT_EVERY_S = 5.0
"""Reading all processes of the host takes up to some tenths of a second."""

WARM = (
    *("dataclasses", "datetime", "functools", "itertools", "json", "logging", "math", "pathlib", "re", "textwrap", "typing"),
    *("croniter", "tidegate.schemas.json_schema"),
)
"""Modules that many DAG files import, or that a parameter needs."""


def main() -> None:
    die_with_parent()
    refuse_inspection()
    control = socket.socket(fileno=int(sys.argv[1]))
    close_others(control.fileno())
    for name in WARM:
        importlib.import_module(name)
    reachable = leave_network()
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    with suppress(BrokenPipeError, ConnectionResetError):  # the daemon stopped while it started
        control.send(encode(Hello(reachable)))
        serve(control, alone=reachable is None)


def close_others(descriptor: int) -> None:
    """Close all descriptors but this one and the standard ones: uvloop passes a second descriptor of the log."""
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, os.sysconf("SC_OPEN_MAX"))


def serve(control: socket.socket, *, alone: bool) -> None:
    """Fork a minder per request, until the daemon closes the socket."""
    processes, counted_until = 0, 0.0
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, MAX_REQUEST, DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        if not message:
            return
        if time.monotonic() > counted_until:
            processes, counted_until = process_limit(alone=alone), time.monotonic() + COUNT_EVERY_S
        with suppress(OSError):
            if os.fork() == 0:
                control.close()
                _mind_and_exit(decode_request(message), descriptors, processes)
        for descriptor in descriptors:
            os.close(descriptor)


def _mind_and_exit(request: Request, descriptors: list[int], processes: int) -> None:
    try:
        mind(request, descriptors, processes)
    except BaseException:  # noqa: BLE001 - this process must exit here
        traceback.print_exc()
    finally:
        os._exit(0)


def mind(request: Request, descriptors: list[int], processes: int) -> None:
    """Run the file in a child; kill it at the time limit or when the daemon closes the socket; reply when it ended."""
    source, result, printed, reply = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    die_with_parent()
    contained = enter_process_namespace()
    if not contained:
        adopt_orphans()
    pid = os.fork()
    if pid == 0:
        os.close(reply)
        execute(request, source, result, printed, processes)
    timed_out = not _ends(pid, reply, request.limits.wall_s + GRACE_S)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    _, status, used = os.wait4(pid, 0)
    if not contained:
        _kill_orphans()
    ended = Reply(status=os.waitstatus_to_exitcode(status), timed_out=timed_out, cpu_s=used.ru_utime + used.ru_stime)
    with suppress(BrokenPipeError):
        os.write(reply, encode(ended))


def _ends(pid: int, reply: int, seconds: float) -> bool:
    """Wait until the child ends or the daemon closes the socket; False after the timeout."""
    waiting = select.poll()
    waiting.register(os.pidfd_open(pid), select.POLLIN)
    waiting.register(reply, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


def _kill_orphans() -> None:
    """Kill the remaining processes of the file, which all are children of this process now."""
    children = Path("/proc/thread-self/children")
    while pids := children.read_text().split():
        for pid in map(int, pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
