"""Modules below directories that only root can enter.

A daemon of root parses DAG files as another user, without capabilities, who cannot enter a home such as `/root`. In the mount
namespace of the sandbox such a directory is covered with an empty one that contains the directories of modules only, read-only.
Other files below it stay out of reach.
"""

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


def closed_folders(paths: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """By directory that only its owner can enter, those of these directories that are below it."""
    below: dict[str, list[str]] = defaultdict(list)
    folders, ways = [path for path in paths if os.path.isdir(path)], Ways()
    for path in sorted({*folders, *(os.path.realpath(path) for path in folders if ways[path].has_link)}):
        if (closed := ways[os.path.dirname(path)].closed) is not None:
            below[closed].append(path)
    return below


class Way(NamedTuple):
    """A path with its directories: whether one of them is a link, and the first that other users cannot enter."""

    has_link: bool = False
    closed: str | None = None


class Ways(dict[str, Way]):
    """By path, read once: many paths share their parents."""

    def __missing__(self, path: str) -> Way:
        parent = os.path.dirname(path)
        before = self[parent] if parent != path else Way()
        is_link, is_closed = _link_and_closed(path)
        self[path] = way = Way(before.has_link or is_link, before.closed or (path if is_closed else None))
        return way


def unreadable(paths: Iterable[str]) -> Sequence[str]:
    """The paths that exist, as far as this process can see, and that it may not read."""
    return [path for path in paths if _is_unreadable(path)]


def _link_and_closed(path: str) -> tuple[bool, bool]:
    """Whether a path is a link, and whether other users cannot enter the directory that it names."""
    try:
        mode = os.lstat(path).st_mode
        is_link = stat.S_ISLNK(mode)
        return is_link, not (os.stat(path).st_mode if is_link else mode) & stat.S_IXOTH
    except OSError:
        return False, False


def _is_unreadable(path: str) -> bool:
    try:
        return not os.access(path, os.R_OK) and bool(os.stat(path))
    except OSError as error:
        return isinstance(error, PermissionError)
