"""Mounts that no other process sees."""

import ctypes
import os
from collections.abc import Sequence

from tidegate.daemon.dagfiles import libc

CLONE_NEWNS = 0x20000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = (
    *(1, 2, 4, 8, 32),
    *(0x1000, 0x4000, 0x40000),
)
_MNT_DETACH = 2
_ENTERED_BY_ALL = b"mode=755"


def enter_namespace() -> None:
    """Move this process into a mount namespace whose mounts no other process sees. Raises OSError without the permission."""
    libc.call("unshare", CLONE_NEWNS)
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)


def replace(folder: str, paths: Sequence[str], options: bytes = _ENTERED_BY_ALL) -> None:
    """Cover a folder with an empty one in memory that has only these directories below it, read-only. Raises OSError.

    It changes nothing then. `options` are those of a tmpfs.
    """
    opened = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths}
    try:
        _mount(b"tmpfs", folder, b"tmpfs", _MS_NOSUID | _MS_NODEV, options)
        _mount_all(folder, opened)
    finally:
        for descriptor in opened.values():
            os.close(descriptor)


def _mount_all(folder: str, opened: dict[str, int]) -> None:
    mask = os.umask(0o022)
    try:
        for path, descriptor in opened.items():
            if not os.path.isdir(path):  # one that is below another of these is there already
                os.makedirs(path)
                _mount_at(descriptor, path)
    except OSError:
        libc.call("umount2", os.fsencode(folder), _MNT_DETACH)
        raise
    finally:
        os.umask(mask)


def _mount_at(descriptor: int, path: str) -> None:
    """Mount an open directory at this path, read-only. What its file system forbids already, a user has to forbid again."""
    _mount(f"/proc/self/fd/{descriptor}".encode(), path, None, _MS_BIND)
    held = os.statvfs(path).f_flag & (_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _mount(None, path, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | held)


def _mount(source: bytes | None, target: str, kind: bytes | None, flags: int, options: bytes | None = None) -> None:
    libc.call("mount", source, os.fsencode(target), kind, ctypes.c_ulong(flags), options)
