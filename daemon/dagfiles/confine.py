"""What the kernel is asked for before it runs code that is not ours. Linux only.

The zygote leaves the network once (`leave_network`). Each sandbox is the first process of a process namespace of its own
(`enter_process_namespace`), so that it sees no other process and nothing of it outlives it, and gives up what it does not
need (`confine`). Where the kernel permits none of this, limits, process groups and the wall clock remain.
"""

import ctypes
import os
import resource
import signal
from contextlib import suppress

from tidegate.daemon.dagfiles.message import Limits

MIB = 1 << 20
RESERVE_MIB = 32
"""Memory kept back from a file, so that its sandbox can still say that it used up the rest."""

OPEN_FILES = 64
PROCESSES = 64
PROCESSES_SHARED = 4096
"""Where the limit counts every process of the user and not only those of the sandbox."""

NOBODY = 65534

_CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x08000000, 0x10000000, 0x20000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 8, 36, 38
_CAPABILITY_VERSION_3 = 0x20080522
_CAP_DAC_READ_SEARCH = 1 << 2

_libc = ctypes.CDLL(None, use_errno=True)


def leave_network() -> str | None:
    """Move this single-threaded process into a network namespace without any device.

    Root keeps its user namespace, others need one of their own. Returns why it was not permitted, None if it was.
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
    """Make the next child the first process of a new process namespace, if that is permitted."""
    with suppress(OSError):
        _call("unshare", _CLONE_NEWPID)
        return True
    return False


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be killed when the thread that forked this process ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def confine(limits: Limits, *, alone: bool) -> None:
    """Give up everything that building DAGs does not need. `alone`: in a user namespace of its own, or root without one."""
    dropped = _become_nobody()
    _limit(resource.RLIMIT_AS, limits.memory_mb * MIB, (limits.memory_mb + RESERVE_MIB) * MIB)
    _limit(resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + 1)
    _limit(resource.RLIMIT_FSIZE, limits.output_mb * MIB)
    _limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    _limit(resource.RLIMIT_NPROC, PROCESSES if alone or dropped else PROCESSES_SHARED)
    _limit(resource.RLIMIT_CORE, 0)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    # A change of identity resets both.
    _prctl(_PR_SET_DUMPABLE, 1)
    die_with_parent()


def use_reserve() -> None:
    """Allow the memory that was kept back."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _become_nobody() -> bool:
    """Stop being root, if this process is; modules and files that only root may read stay readable."""
    kept = 0
    is_root = os.geteuid() == 0
    with suppress(OSError):
        if is_root:
            _prctl(_PR_SET_KEEPCAPS, 1)
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            kept = _CAP_DAC_READ_SEARCH
    try:
        _keep_capabilities(kept)
    except PermissionError:
        _keep_capabilities(0)
    return is_root and os.geteuid() != 0


def _keep_capabilities(mask: int) -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)(mask, mask, 0, 0, 0, 0)
    _call("capset", header, effective_permitted_inheritable)


def _limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Lower a limit; one that is lower already stays."""
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
