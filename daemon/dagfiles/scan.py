"""Lists the DAG folder and finds the changed files."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tidegate.daemon.dagfiles.ignore import folder_ignored, ignored, patterns

Stamp = tuple[int, int, int]
"""Size, mtime and ctime: a file with the same three is unchanged."""


class Listing(msgspec.Struct, frozen=True):
    """The Python files below a folder, by relative path. `unreadable` are folders that could not be listed."""

    files: Mapping[str, Stamp]
    unreadable: tuple[str, ...] = ()


def listing(root: Path) -> Listing:
    """List the folder. Symbolic links to folders are not followed."""
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
    """The files that are new or have another stamp."""
    return [path for path, stamp in now.items() if before.get(path) != stamp]


def news(now: Mapping[str, str], known: Mapping[str, str | None], reported: Mapping[str, str], *, absent_too: bool) -> list[str]:
    """The paths to report, given the digests of all files `now`, those in the database, and those reported last.

    A file is reported once per content, when the database has another one. With `absent_too` a deleted file is reported until the
    database has recorded the deletion.
    """
    differing = [path for path, digest in now.items() if digest != known.get(path) and digest != reported.get(path)]
    absent = [path for path in known if path not in now] if absent_too else []
    return sorted(differing) + sorted(absent)


def _is_candidate(path: str, lines: Sequence[str]) -> bool:
    """Whether the file may be a DAG file with a name in UTF-8, which events need."""
    return path.endswith(".py") and not any("\ud800" <= character <= "\udfff" for character in path) and not ignored(path, lines)


def _stamp(entry: "os.DirEntry[str]") -> Stamp | None:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns
