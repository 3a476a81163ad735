"""Processes by identity: a pid is reused, a (pid, start time, boot) is not.

All processes of a task inherit its stamp in the environment, so that those are found which left its process group or session.
Linux only: reads /proc, signals through pidfds.
"""

import math
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated
from uuid import UUID

import anyio
import msgspec
from msgspec import Meta

from tidegate.daemon.spark.contact import elapsed
from tidegate.daemon.spark.regular_file import open_regular

STAMP = "TASK_SUBMISSION_ID"
POLL_S = 0.02
EXEC_POLL_S = 0.001
EXEC_POLLS = 1000
"""Polls of a process that starts a program. The start takes under a millisecond, unless the disk does not answer."""
SCANS = 2
"""Scans without a process until none is left. A process can start another and end during one scan, which then misses both."""
KILLED_S = 5.0
"""How long the kernel may take to end a process that was killed: it frees its memory first."""
TAIL_BYTES = 64 * 1024

_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"
_STATE, _SESSION, _THREADS, _START_TIME, _MEMORY, _START_CODE, _ENV_START, _ENV_END = 0, 3, 17, 19, 20, 23, 47, 48


def tail(log: Path, start: int) -> str:
    """The end of a log, at most `TAIL_BYTES`, without what is before `start`. Raises DamagedError.

    It begins with a whole line, unless there is none: of a secret in a part of a line only the end could be there.
    """
    with os.fdopen(open_regular(log), "rb") as file:
        end = file.seek(0, os.SEEK_END)
        begin = file.seek(max(start, end - TAIL_BYTES))
        content = file.read(TAIL_BYTES)  # a process that goes on to write must not delay the end
    whole = content if begin == start else content.partition(b"\n")[2] or content
    return whole.decode(errors="replace")


class Identity(msgspec.Struct, frozen=True):
    """Identifies one process uniquely. `start_time` is in clock ticks since the boot."""

    pid: Annotated[int, Meta(ge=1, lt=2**31)]
    start_time: int
    boot_id: str


def identify(pid: int) -> Identity | None:
    """The identity of a pid; None without such a process, or for a zombie.

    A first thread that has ended is one too, but its process lives while it has other threads. A thread that starts a program
    takes the place of the first one, which is a zombie until then.
    """
    try:
        fields = _stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[_STATE] in (b"Z", b"X") and not _has_threads(fields):
        return None
    return _identity(pid, fields)


def _identity(pid: int, fields: list[bytes]) -> Identity:
    return Identity(pid, int(fields[_START_TIME]), _BOOT_ID.read_text().strip())


def _stat(pid: int) -> list[bytes]:
    """The fields of proc_pid_stat(5) from the state on. Raises OSError.

    A process has one thread at least, also as a zombie. Without one it was looked at while another thread took the place of the
    first, or while it was reaped, so that it is looked at again.
    """
    for _ in range(EXEC_POLLS):
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        if fields[_THREADS] != b"0":
            break
    return fields


def _has_threads(fields: list[bytes]) -> bool:
    """Whether it has threads beside its first one."""
    return int(fields[_THREADS]) > 1


def signal_name(number: int) -> str:
    """`SIGKILL`; `signal 37` for a real-time signal, which has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def alive(identity: Identity) -> bool:
    return identify(identity.pid) == identity


def send(identity: Identity, number: signal.Signals) -> bool:
    """Signal exactly this process; False when it ended, or runs as another user now, as after `exec sudo`.

    The pidfd pins the process between check and signal.
    """
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    try:
        if not alive(identity):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except (ProcessLookupError, PermissionError):
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
    process = _PROC / str(pid)
    for _ in range(EXEC_POLLS):
        if environ := _shown_environ(process):
            return environ
        fields = _stat(pid)
        if _has_threads(fields) and (environ := _environ_of_threads(process)):
            return environ
        if not _starts_program(fields):
            break
        time.sleep(EXEC_POLL_S)
    return b""


def _shown_environ(process: Path) -> bytes:
    """Empty for a thread that has ended. Raises OSError for a process of another user."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return (process / "environ").read_bytes()
    return b""


def _environ_of_threads(process: Path) -> bytes:
    """The first thread, whose environment is that of the process, may have ended before the others. Raises OSError.

    Empty also while one of the threads takes the place of the first.
    """
    return next(filter(None, map(_shown_environ, (process / "task").iterdir())), b"")


def _starts_program(fields: list[bytes]) -> bool:
    """Whether a process with an empty environment gets one soon: not a zombie or one of the kernel.

    The kernel sets the start of the code last, after the ends of the environment, which are equal for a moment. A first thread
    without memory has ended, and another one may be about to take its place.
    """
    if fields[_MEMORY] == b"0":
        return _has_threads(fields)
    return fields[_START_CODE] == b"0" or fields[_ENV_START] != fields[_ENV_END]


def stamped(submission_id: UUID) -> Iterator[Identity]:
    """The processes of a submission, except the caller and those of other users."""
    for pid in _other_pids():
        # Of these pids, one that ended before it was identified can belong to another process.
        if has_stamp(pid, submission_id) and (process := identify(pid)) is not None and has_stamp(pid, submission_id):
            yield process


def with_processes() -> set[UUID]:
    """The submissions of all processes, except the caller and those of other users. Reads each process, however many they are."""
    found: set[UUID] = set()
    for pid in (pid for _ in range(SCANS) for pid in _other_pids()):
        with suppress(OSError, ValueError):
            found.update(map(_submission_of, filter(_is_stamp, _environ(pid).split(b"\0"))))
    return found


def _other_pids() -> Iterator[int]:
    return (int(name) for name in os.listdir(_PROC) if name.isdigit() and int(name) != os.getpid())


def _is_stamp(variable: bytes) -> bool:
    return variable.startswith(f"{STAMP}=".encode())


def _submission_of(stamp: bytes) -> UUID:
    """Raises ValueError."""
    return UUID(stamp.decode().partition("=")[2])


def descendants(pid: int) -> Iterator[int]:
    """The children of a process, their children, and so on."""
    parents = [pid]
    while parents:
        children = list(_children(parents.pop()))
        yield from children
        parents += children


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for thread in os.listdir(_PROC / str(pid) / "task"):
            with suppress(OSError):
                yield from map(int, (_PROC / str(pid) / "task" / thread / "children").read_text().split())


def end_all(
    submission_id: UUID, grace_s: float, within_s: float = math.inf, *, others: Callable[[], Iterable[Identity]] = tuple
) -> int:
    """Terminate every other process of a submission, kill it after `grace_s`, at once with 0. Returns the number of processes.

    Those are the processes with its stamp, and the `others`: a program can overwrite its environment, or start one without it.

    Gives up after `within_s`: while the caller has threads that start processes, there are always more.
    """
    seen: set[Identity] = set()
    began = elapsed()
    while (left := _left(submission_id, seen, others)) and (passed_s := elapsed() - began) < within_s:
        number = signal.SIGKILL if passed_s >= grace_s else signal.SIGTERM
        for process in left:
            if number is signal.SIGKILL or process not in seen:
                send(process, number)
        seen |= left
        time.sleep(POLL_S)
    return len(seen)


def _left(submission_id: UUID, seen: set[Identity], others: Callable[[], Iterable[Identity]]) -> set[Identity]:
    """A process whose parent has ended is below no other."""
    orphans = {process for process in seen if alive(process) and may_signal(process.pid)}
    scans = ({*stamped(submission_id), *others(), *orphans} for _ in range(SCANS))
    return next(filter(None, scans), set())


def below(pid: int) -> Iterator[Identity]:
    """The descendants that this user may signal, which excludes those of `sudo`. Orphans count if the process adopts them."""
    found = [process for child in descendants(pid) if may_signal(child) and (process := identify(child)) is not None]
    # Of these pids, one that ended before it was identified can belong to another process.
    still = set(descendants(pid))
    yield from (process for process in found if process.pid in still)


def in_session(number: int) -> Iterator[Identity]:
    """The processes of a session, except the caller: also zombies, and those of other users."""
    for pid in _other_pids():
        with suppress(OSError):
            fields = _stat(pid)
            if int(fields[_SESSION]) == number:
                yield _identity(pid, fields)


def may_signal(pid: int) -> bool:
    """Whether it is there, and no process of another user."""
    with suppress(OSError):
        os.kill(pid, 0)
        return True
    return False
