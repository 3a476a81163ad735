"""Kernel isolation for foreign code. Linux only.

The zygote leaves the network once (`leave_network`). Each sandbox is the first process of its own process namespace
(`fork_contained`): it can signal no other process, and its descendants end with it. It drops privileges and sets limits
(`confine`). Without permission for namespaces the means of `isolation` remain, and limits, process groups and the wall clock.

The daemon and the zygote refuse inspection, because a sandbox may run as their user.
"""

import ctypes
import os
import resource
import signal
from contextlib import suppress
from pathlib import Path

from tidegate.daemon.dagfiles import libc
from tidegate.daemon.dagfiles.message import Limits

MIB = 1 << 20
RESERVE_MIB = 32
"""Memory reserved for the sandbox, to report that the file used up its limit."""

OPEN_FILES = 64
PROCESSES = 64
"""The processes and threads that a DAG file may have at a time."""

NICE = 5
"""A file that computes gets a quarter of a processor that the daemon uses as well."""

PROCESSES_SHARED = 4096
"""The limit where it counts all processes of the daemon's user, whose number changes all the time."""

NOBODY = 65534

_CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x08000000, 0x10000000, 0x20000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_CAPABILITY_VERSION_3 = 0x20080522


def leave_network() -> str:
    """Move this single-threaded process into a network namespace without any device.

    Root keeps its user namespace, other users need a new one. Returns why it was not permitted, nothing if it was.
    """
    user, group, reason = os.geteuid(), os.getegid(), ""
    for flags in (_CLONE_NEWNET, _CLONE_NEWNET | _CLONE_NEWUSER):
        try:
            libc.call("unshare", flags | _CLONE_NEWIPC)
        except OSError as error:
            reason = f"unshare: {error.strerror}"
        else:
            if flags & _CLONE_NEWUSER:
                _keep_ids(user, group)
            return ""
    return reason


def _keep_ids(user: int, group: int) -> None:
    """Be the same user in a new user namespace: a user without a number makes no files in memory.

    The files that say so belong to root alone while this process refuses inspection.
    """
    with suppress(OSError):
        libc.prctl(_PR_SET_DUMPABLE, 1)
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    refuse_inspection()


def enter_process_namespace() -> bool:
    """Make the next child the first process of a new process namespace; False if that is not permitted."""
    with suppress(OSError):
        libc.call("unshare", _CLONE_NEWPID)
        return True
    return False


def open_process_namespace() -> int:
    """A descriptor of the process namespace of this process. Raises OSError if it may not enter that."""
    home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    libc.call("setns", home, _CLONE_NEWPID)
    return home


def fork_contained(home: int) -> int:
    """Fork the first process of a new process namespace. Raises OSError.

    `home` is the namespace of this process, in which its user has to be privileged: its next child gets a further one.
    """
    libc.call("unshare", _CLONE_NEWPID)
    pid = -1
    try:
        pid = os.fork()
    finally:
        if pid != 0:
            libc.call("setns", home, _CLONE_NEWPID)
    return pid


def refuse_inspection() -> None:
    """Let no other process of this user read the memory or the environment of this one, nor trace it. Root still can.

    The children inherit it until they execute a program.
    """
    libc.prctl(_PR_SET_DUMPABLE, 0)


def die_with_parent() -> None:
    """Be killed when the thread that forked this process ends."""
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def confine(limits: Limits, processes: int) -> None:
    """Drop privileges, lower the priority and set limits. `processes` is the result of `process_limit`."""
    _become_nobody()
    os.nice(NICE)
    _limit(resource.RLIMIT_AS, limits.memory_mb * MIB, (limits.memory_mb + RESERVE_MIB) * MIB)
    _limit(resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 1)
    _limit(resource.RLIMIT_FSIZE, limits.output_mb * MIB)
    _limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    _limit(resource.RLIMIT_NPROC, processes)
    _limit(resource.RLIMIT_CORE, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1)
    # The change of user resets both.
    refuse_inspection()
    die_with_parent()


def process_limit(*, alone: bool) -> int:
    """The limit of processes that gives a sandbox `PROCESSES`. `alone`: in a user namespace of its own, or root without one.

    The kernel counts all processes of the user, also those of other programs.
    """
    if changes_user():
        return _threads_of(NOBODY) + PROCESSES
    return PROCESSES if alone else PROCESSES_SHARED


def _threads_of(user: int) -> int:
    """The threads of a user on this host."""
    threads = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError, ValueError):
            facts = dict(line.split(":", 1) for line in status.read_text().splitlines())
            threads += int(facts["Threads"]) * (int(facts["Uid"].split()[0]) == user)
    return threads


def changes_user() -> bool:
    """Whether sandboxes of this process run as another user: as root, unless its user namespace has no other users."""
    ranges = (map(int, line.split()) for line in Path("/proc/self/uid_map").read_text().splitlines())
    return os.geteuid() == 0 and any(first <= NOBODY < first + count for first, _, count in ranges)


def use_reserve() -> None:
    """Raise the limit by the reserved memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _become_nobody() -> None:
    """Drop root and all capabilities."""
    with suppress(OSError):
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
    _drop_capabilities()


def _drop_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)()
    libc.call("capset", header, effective_permitted_inheritable)


def _limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Lower a limit; never raise it."""
    _, highest = resource.getrlimit(kind)
    wanted = (soft, soft if hard is None else hard)
    if highest != resource.RLIM_INFINITY:
        wanted = (min(wanted[0], highest), min(wanted[1], highest))
    resource.setrlimit(kind, wanted)
