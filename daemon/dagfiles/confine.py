"""Kernel isolation for foreign code. Linux only.

The zygote leaves the network once (`leave_network`). Each sandbox is the first process of its own process namespace
(`enter_process_namespace`): it sees no other process, and its descendants end with it. It drops privileges and sets limits
(`confine`). Without permission for namespaces only limits, process groups and the wall clock remain.
"""

import ctypes
import os
import resource
import signal
from contextlib import suppress

from tidegate.daemon.dagfiles.message import Limits

MIB = 1 << 20
RESERVE_MIB = 32
"""Memory reserved for the sandbox, to report that the file used up its limit."""

OPEN_FILES = 64
PROCESSES = 64
PROCESSES_SHARED = 4096
"""The limit when it counts all processes of the user instead of those of the sandbox."""

NOBODY = 65534

_CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x08000000, 0x10000000, 0x20000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 8, 36, 38
_CAPABILITY_VERSION_3 = 0x20080522
_CAP_DAC_READ_SEARCH = 1 << 2

_libc = ctypes.CDLL(None, use_errno=True)


def leave_network() -> str | None:
    """Move this single-threaded process into a network namespace without any device.

    Root keeps its user namespace, other users need a new one. Returns why it was not permitted, None if it was.
    """
    reason = None
    for flags in (_CLONE_NEWNET, _CLONE_NEWNET | _CLONE_NEWUSER):
        try:
            _call("unshare", flags | _CLONE_NEWIPC)
        except OSError as error:
            reason = f"unshare: {error.strerror}"
        else:
            return None
    return reason


def enter_process_namespace() -> bool:
    """Make the next child the first process of a new process namespace; False if that is not permitted."""
    with suppress(OSError):
        _call("unshare", _CLONE_NEWPID)
        return True
    return False


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be killed when the thread that forked this process ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def confine(limits: Limits, *, alone: bool) -> None:
    """Drop privileges and set limits. `alone`: in a user namespace of its own, or root without one."""
    dropped = _become_nobody()
    _limit(resource.RLIMIT_AS, limits.memory_mb * MIB, (limits.memory_mb + RESERVE_MIB) * MIB)
    _limit(resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 1)
    _limit(resource.RLIMIT_FSIZE, limits.output_mb * MIB)
    _limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    _limit(resource.RLIMIT_NPROC, PROCESSES if alone or dropped else PROCESSES_SHARED)
    _limit(resource.RLIMIT_CORE, 0)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    # The change of user resets both.
    _prctl(_PR_SET_DUMPABLE, 1)
    die_with_parent()


def use_reserve() -> None:
    """Raise the limit by the reserved memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _become_nobody() -> bool:
    """Drop root, but keep the capability to read files of root, such as modules."""
    capabilities = 0
    is_root = os.geteuid() == 0
    with suppress(OSError):
        if is_root:
            _prctl(_PR_SET_KEEPCAPS, 1)
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            capabilities = _CAP_DAC_READ_SEARCH
    try:
        _keep_capabilities(capabilities)
    except PermissionError:
        _keep_capabilities(0)
    return is_root and os.geteuid() != 0


def _keep_capabilities(mask: int) -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)(mask, mask, 0, 0, 0, 0)
    _call("capset", header, effective_permitted_inheritable)


def _limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Lower a limit; never raise it."""
    _, highest = resource.getrlimit(kind)
    wanted = (soft, soft if hard is None else hard)
    if highest != resource.RLIM_INFINITY:
        wanted = (min(wanted[0], highest), min(wanted[1], highest))
    resource.setrlimit(kind, wanted)


def _prctl(option: int, value: int) -> None:
    _call("prctl", option, *(ctypes.c_ulong(argument) for argument in (value, 0, 0, 0)))


def _call(name: str, *arguments: object) -> None:
    if _libc[name](*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
