"""What lies in the DAG folder, and which of it is news."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tidegate.daemon.dagfiles.ignore import folder_ignored, ignored, patterns

Stamp = tuple[int, int, int]
"""Size, time of modification and of status change: a file that keeps all three is taken to be the same."""


class Listing(msgspec.Struct, frozen=True):
    """The Python files below a folder, by relative path. `unreadable` names what could not be looked into."""

    files: Mapping[str, Stamp]
    unreadable: tuple[str, ...] = ()


def listing(root: Path) -> Listing:
    """Look through the folder once. Symbolic links to folders are not followed."""
    lines = patterns(root)
    files: dict[str, Stamp] = {}
    unreadable: list[str] = []
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(root / folder))
        except FileNotFoundError:
            continue
        except OSError:
            unreadable.append(folder or ".")
            continue
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                folders += () if folder_ignored(path, lines) else (path,)
            elif _is_candidate(path, lines) and (stamp := _stamp(entry)) is not None:
                files[path] = stamp
    return Listing(files, tuple(unreadable))


def changed(before: Mapping[str, Stamp], now: Mapping[str, Stamp]) -> list[str]:
    """The files that are new, or not what they were."""
    return [path for path, stamp in now.items() if before.get(path) != stamp]


def news(now: Mapping[str, str], known: Mapping[str, str | None], reported: Mapping[str, str], *, absent_too: bool) -> list[str]:
    """The paths to report, given the digests of all files `now`, those in the database, and those reported last.

    A file is reported when its content is not what the database knows, once per content. A file that is gone is reported, where
    `absent_too`, each time until the database knows it no more.
    """
    differing = [path for path, digest in now.items() if digest != known.get(path) and digest != reported.get(path)]
    absent = [path for path in known if path not in now] if absent_too else []
    return sorted(differing) + sorted(absent)


def _is_candidate(path: str, lines: Sequence[str]) -> bool:
    """Whether an event can name it, as one cannot where a name is not UTF-8, and whether it may hold DAGs."""
    return path.endswith(".py") and not any("\ud800" <= character <= "\udfff" for character in path) and not ignored(path, lines)


def _stamp(entry: "os.DirEntry[str]") -> Stamp | None:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns
