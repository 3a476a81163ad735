"""Runs a command that dies with its parent, optionally as another user. A script for `python -I -S`, without imports of ours.

`leash.py PARENT SIGNAL USER COMMAND…`: the command replaces this process. SIGNAL is what the kernel sends it when the thread that
started it ends, by `kill -9` too. USER is a name to run as, or "-".
"""

import ctypes
import os
import pwd
import sys

PR_SET_PDEATHSIG, PR_SET_SECUREBITS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 1, 28, 47, 2
NO_SETUID_FIXUP = 1 << 2
CAP_DAC_OVERRIDE = 1
CAPABILITY_VERSION_3 = 0x20080522


def become(user: str) -> None:
    """Drop root, but keep access to files below directories of root, such as a checkout in its home.

    Without NO_SETUID_FIXUP the capability would count for open(), but not for access(), which Postgres asks about its binaries.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    entry = pwd.getpwnam(user)
    libc.prctl(PR_SET_SECUREBITS, NO_SETUID_FIXUP, 0, 0, 0)
    os.setgroups([])
    os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
    os.setresuid(entry.pw_uid, entry.pw_uid, entry.pw_uid)
    one = 1 << CAP_DAC_OVERRIDE
    header, data = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)(one, one, one, 0, 0, 0)
    libc.capset(header, data)
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0)


def main(parent: str, signal: str, user: str, *command: str) -> None:
    """The death signal is set after the change of user, which clears it. A parent that died before has another pid."""
    if user != "-":
        become(user)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal), 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit("the parent is gone")
    try:
        os.execvp(command[0], command)  # noqa: S606 - replaces this process
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])
