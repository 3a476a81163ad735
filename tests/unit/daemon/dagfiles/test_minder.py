"""The minder waits for sandboxes and for the daemon."""

import errno
import os
import sys
import time
from types import SimpleNamespace
from typing import cast

import pytest

from tidegate.daemon.dagfiles.execute import Host
from tidegate.daemon.dagfiles.isolation import Isolation
from tidegate.daemon.dagfiles.message import Limits, Request
from tidegate.daemon.dagfiles.minder import Minder, Sandbox

REQUEST = Request(root="/dags", filename="/dags/a.py", limits=Limits(wall_s=30, cpu_s=20, memory_mb=512, output_mb=4))


def test_a_time_limit_of_months_is_waited_for() -> None:
    minder = Minder(os.fork, lambda: None, ())
    unhurried = SimpleNamespace(awaited=(), ended=-1, reply=-1, is_killed=False, kill_at=time.monotonic() + 1e8)
    minder.sandboxes.append(cast("Sandbox", unhurried))
    readable, writable = os.pipe()
    os.write(writable, b"1")

    assert minder.wait(readable) == {readable}

    os.close(readable)
    os.close(writable)


@pytest.mark.parametrize("call", ["pidfd_open", "dup"])
def test_a_sandbox_that_cannot_be_minded_is_ended_and_leaves_nothing_open(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its daemon waits until no process holds the reply any more."""
    started: list[int] = []

    def start() -> int:
        started.append(os.posix_spawn(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)"], os.environ))
        return started[-1]

    def refuse(_: int) -> int:
        raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))

    minder, before = Minder(start, lambda: None, ()), set(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(OSError, match="Too many open files in system"):
        minder.start(REQUEST, (0, 0, 0, 0), Host(64, Isolation()))

    left = set(os.listdir("/proc/self/fd")) - before  # the garbage collector may have closed others meanwhile
    assert (minder.sandboxes, left) == ([], set())
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)
