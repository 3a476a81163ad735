"""Landlock: a process gives up all files but those below some paths. It needs no privilege, only `no_new_privs`.

It holds for what a process opens from then on, and for its descendants. Names, sizes and times of files remain visible.
"""

import ctypes
import os
import struct
from collections.abc import Iterable

from tidegate.daemon.dagfiles import libc

SCOPED_SINCE, TRUNCATES_SINCE = 6, 3
"""The versions of Landlock, from Linux 6.12 and 6.2, that also hold back signals, and calls that empty a file."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_GET_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL_DEVICE = 1 << 14, 1 << 15
_MAKE_DEVICES_AND_SOCKETS = 1 << 6 | 1 << 9 | 1 << 11
_HIGHEST = {1: 12, 2: 13, 3: 14, 4: 14}
"""The highest right of each version; later ones have all up to `_IOCTL_DEVICE`."""

_ALL_TCP, _ALL_SCOPES = 3, 3

READ_FILE = _EXECUTE | _READ_FILE
READ_FOLDER = READ_FILE | _READ_DIR
DEVICE = _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEVICE


def version() -> int:
    """The version of Landlock that the kernel has. Raises OSError if it has none, or does not use it."""
    return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), _GET_VERSION)


class Ruleset:
    """The paths that a process keeps. `version` is that of the kernel. Raises OSError; a missing path is passed over."""

    def __init__(self, version: int) -> None:
        self._rights = (2 << _HIGHEST.get(version, 15)) - 1
        tcp, scopes = _ALL_TCP if version >= 4 else 0, _ALL_SCOPES if version >= SCOPED_SINCE else 0
        attributes = struct.pack("QQQ", self._rights, tcp, scopes)[: 8 if version < 4 else 16 if version < SCOPED_SINCE else 24]
        self._descriptor = _call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)

    def keep(self, paths: Iterable[str], rights: int) -> None:
        """Keep these rights below the paths. A file cannot have the rights of folders."""
        for path in paths:
            try:
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue
            try:
                _call(_ADD_RULE, self._descriptor, _PATH_BENEATH, struct.pack("=Qi", rights & self._rights, descriptor), 0)
            finally:
                os.close(descriptor)

    def keep_all(self, folder: str) -> None:
        """Keep all rights below a folder, but none to make devices and sockets."""
        self.keep([folder], ~_MAKE_DEVICES_AND_SOCKETS)

    def enforce(self) -> None:
        """Give up all other files."""
        _call(_RESTRICT_SELF, self._descriptor, 0)
        os.close(self._descriptor)


def _call(number: int, *arguments: object) -> int:
    return libc.call("syscall", ctypes.c_long(number), *arguments)
