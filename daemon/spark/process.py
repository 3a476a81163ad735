"""Processes by identity: a pid is reused, a (pid, start time, boot) is not.

All processes of a task inherit its stamp in the environment, so that those are found which left its process group or session.
Linux only: reads /proc, signals through pidfds.
"""

import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated
from uuid import UUID

import anyio
import msgspec
from msgspec import Meta

from tidegate.daemon.spark.regular_file import open_regular

STAMP = "TASK_SUBMISSION_ID"
POLL_S = 0.02
EXEC_POLL_S = 0.001
EXEC_POLLS = 1000
"""How often a process is looked at that starts a program. It needs under a millisecond, unless its disk does not answer."""
SCANS = 2
"""Scans without a process until none is left. A process can start another and end during one scan, which then misses both."""
TAIL_BYTES = 64 * 1024

_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"
_STATE, _START_TIME, _MEMORY, _START_CODE, _ENV_START, _ENV_END = 0, 19, 20, 23, 47, 48


def tail(log: Path, start: int) -> str:
    """The end of a log, at most `TAIL_BYTES`, without what is before `start`. Raises DamagedError."""
    with os.fdopen(open_regular(log), "rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(start, end - TAIL_BYTES))
        return file.read().decode(errors="replace")


class Identity(msgspec.Struct, frozen=True):
    """Identifies one process uniquely. `start_time` is in clock ticks since the boot."""

    pid: Annotated[int, Meta(ge=1, lt=2**31)]
    start_time: int
    boot_id: str


def identify(pid: int) -> Identity | None:
    """The identity of a pid; None without such a process, or for a zombie."""
    try:
        fields = _stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[_STATE] in (b"Z", b"X"):
        return None
    return Identity(pid, int(fields[_START_TIME]), _BOOT_ID.read_text().strip())


def _stat(pid: int) -> list[bytes]:
    """The fields of proc_pid_stat(5) from the state on. Raises OSError."""
    return (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()


def alive(identity: Identity) -> bool:
    return identify(identity.pid) == identity


def send(identity: Identity, number: signal.Signals) -> bool:
    """Signal exactly this process; False when it ended. The pidfd pins the process between check and signal."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    try:
        if not alive(identity):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


async def until_gone(identity: Identity) -> None:
    """Return when this process has ended."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return
    try:
        if alive(identity):
            await anyio.wait_readable(descriptor)
    finally:
        os.close(descriptor)


def has_stamp(pid: int, submission_id: UUID) -> bool:
    """Whether the process belongs to the submission; False for processes of other users."""
    with suppress(OSError):
        return f"{STAMP}={submission_id}".encode() in _environ(pid).split(b"\0")
    return False


def _environ(pid: int) -> bytes:
    """The environment with which a process was started. Raises OSError.

    While a process starts a program, the kernel shows no environment, so an empty one is read again until it is known to be.
    """
    for _ in range(EXEC_POLLS):
        if (environ := (_PROC / str(pid) / "environ").read_bytes()) or not _starts_program(pid):
            return environ
        time.sleep(EXEC_POLL_S)
    return b""


def _starts_program(pid: int) -> bool:
    """Whether a process with an empty environment gets one soon: not a zombie or one of the kernel. Raises OSError.

    The kernel sets the start of the code last, after the ends of the environment, which are equal for a moment.
    """
    fields = _stat(pid)
    return fields[_MEMORY] != b"0" and (fields[_START_CODE] == b"0" or fields[_ENV_START] != fields[_ENV_END])


def stamped(submission_id: UUID) -> Iterator[Identity]:
    """The processes of a submission, except the caller and those of other users."""
    pids = (int(name) for name in os.listdir(_PROC) if name.isdigit())
    for pid in (pid for pid in pids if pid != os.getpid()):
        if has_stamp(pid, submission_id):
            yield from filter(None, (identify(pid),))


def end_all(submission_id: UUID, grace_s: float, within_s: float = math.inf) -> int:
    """Terminate every other process of a submission, kill it after `grace_s`, at once with 0. Returns the number of processes.

    Gives up after `within_s`: while the caller has threads that start processes, there are always more.
    """
    seen: set[Identity] = set()
    began = time.monotonic()
    while (left := _left(submission_id)) and (passed_s := time.monotonic() - began) < within_s:
        number = signal.SIGKILL if passed_s >= grace_s else signal.SIGTERM
        for process in left:
            if number is signal.SIGKILL or process not in seen:
                send(process, number)
        seen.update(left)
        time.sleep(POLL_S)
    return len(seen)


def _left(submission_id: UUID) -> list[Identity]:
    return next(filter(None, (list(stamped(submission_id)) for _ in range(SCANS))), [])
