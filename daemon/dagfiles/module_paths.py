"""Modules below directories that only root can enter.

A daemon of root parses DAG files as another user, without capabilities, who cannot enter a home such as `/root`. In the mount
namespace of the sandbox such a directory is covered with an empty one that contains the directories of modules only, read-only.
Other files below it stay out of reach.
"""

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from tidegate.daemon.dagfiles.confine import cover, enter_mount_namespace, mount_at


def closed_folders(paths: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """By directory that only its owner can enter, those of these directories that are below it."""
    below: dict[str, list[str]] = defaultdict(list)
    folders = [path for path in paths if os.path.isdir(path)]
    for path in sorted({*folders, *map(os.path.realpath, folders)}):
        if (closed := _closed_parent(path)) is not None:
            below[closed].append(path)
    return below


def open_to_sandbox(below: Mapping[str, Sequence[str]]) -> None:
    """Make directories reachable for every user of this process's mount namespace. Call as root.

    `below` has them by the closed directory that they are below. Without the permission for mounts these stay closed.
    """
    if below:
        with suppress(OSError):
            enter_mount_namespace()
            for closed, inside in below.items():
                _replace(closed, inside)


def unreadable(paths: Iterable[str]) -> Sequence[str]:
    """The paths that exist, as far as this process can see, and that it may not read."""
    return [path for path in paths if _is_unreadable(path)]


def _closed_parent(path: str) -> str | None:
    """The first directory on the way to the path that other users cannot enter."""
    ends = (place for place, character in enumerate(path) if character == "/")
    return next((parent for end in ends if _is_closed(parent := path[:end] or "/")), None)


def _is_closed(folder: str) -> bool:
    with suppress(OSError):
        return not os.stat(folder).st_mode & stat.S_IXOTH
    return False


def _replace(closed: str, paths: Sequence[str]) -> None:
    opened = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in paths}
    cover(closed)
    mask = os.umask(0o022)
    for path, descriptor in opened.items():
        if not os.path.isdir(path):  # one that is below another of these is there already
            os.makedirs(path)
            mount_at(descriptor, path)
        os.close(descriptor)
    os.umask(mask)


def _is_unreadable(path: str) -> bool:
    try:
        return not os.access(path, os.R_OK) and bool(os.stat(path))
    except OSError as error:
        return isinstance(error, PermissionError)
