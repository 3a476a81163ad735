"""Lists the DAG folder without the ignored files, and finds the changed files."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from tidegate.daemon.dagfiles.ignore import Ignore, ignore_of
from tidegate.daemon.dagfiles.source import RefusedError, archive_file, dag_files, open_archive
from tidegate.daemon.dagfiles.stamp import Stamp, stamp_of
from tidegate.schemas.dag import ARCHIVE, archive_of

FIRST_PAUSE_S, LONGEST_PAUSE_S = 60.0, 3600.0

ABSENT, ABSENT_PAUSE_S = "absent", 0.1
"""Stands for the digest of a deleted file. The first pauses between its reports are short: some scans have to confirm it."""


class Listing(msgspec.Struct, frozen=True):
    """The Python files below a folder, by relative path; archives and the modules in their roots, with the stamp of the archive.

    `unreadable` are folders that could not be listed, `refused` archives: what is in them is not known.
    `problem` is why it is not known which files are ignored: then some of these files may be.
    """

    files: Mapping[str, Stamp]
    unreadable: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    problem: str = ""

    def hidden(self, known: Iterable[str]) -> set[str]:
        """The files in folders that could not be listed: whether they are still there is not known."""
        folders = tuple("" if folder == "." else f"{folder}/" for folder in self.unreadable)
        return {path for path in known if path.startswith(folders)}

    def closed(self, paths: Collection[str]) -> Sequence[str]:
        """The folders at, above or below one of the paths that could not be listed; without paths all."""
        return [folder for folder in self.unreadable if not paths or any(_overlap(folder, path) for path in paths)]


def listing(root: Path) -> Listing:
    """List the folder. Symbolic links to folders are not followed."""
    ignore = ignore_of(root)
    files: dict[str, Stamp] = {}
    unreadable: list[str] = []
    refused: list[str] = []
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(root / folder))
            os.stat(f"{root / folder}/.")  # fails for a folder that may be listed, but not entered
        except FileNotFoundError:
            continue
        except OSError:
            unreadable.append(folder or ".")
            continue
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                folders += () if ignore.folder(path) else (path,)
            elif _is_candidate(path, ignore) and (stamp := _stamp(entry)) is not None:
                try:
                    files |= dict.fromkeys(_files_at(root, path, ignore), stamp)
                except RefusedError:
                    refused.append(path)
                    files[path] = stamp
    return Listing(files, tuple(unreadable), tuple(refused), ignore.problem)


def _overlap(folder: str, path: str) -> bool:
    inner, outer = sorted((f"{folder}/", f"{path}/"), key=len, reverse=True)
    return folder == "." or inner.startswith(outer)


def files_of(root: Path, archive: str) -> Sequence[str]:
    """The DAG files of an archive; none of a missing one, of one that is refused, and of any other file."""
    try:
        return _files_at(root, archive, ignore_of(root))[1:]
    except RefusedError:
        return ()


def _files_at(root: Path, path: str, ignore: Ignore) -> Sequence[str]:
    """The file; of an archive also its DAG files, and nothing of one without any. Raises RefusedError for an archive."""
    if not path.endswith(ARCHIVE):
        return [path]
    archive = open_archive(root, path)
    inside = () if archive is None else dag_files(archive, path, ignore)
    return [path, *inside] if inside else []


def reported_files(root: Path, paths: Iterable[str]) -> Mapping[str, str]:
    """By path the file whose change is reported: the archive that it leads into, or itself."""
    return {path: archive_file(root, path) or path for path in paths}


def stamps(root: Path, paths: Iterable[str]) -> Mapping[str, Stamp]:
    """The stamps of files below the folder, without missing ones. A module of an archive has that of the archive."""
    found = ((path, _stamp(root / (archive_file(root, path) or path))) for path in paths)
    return {path: stamp for path, stamp in found if stamp is not None}


def changed(before: Mapping[str, Stamp], now: Mapping[str, Stamp]) -> list[str]:
    """The files that are new or have another stamp."""
    return [path for path, stamp in now.items() if before.get(path) != stamp]


def disappeared(
    before: Mapping[str, int], listed: Collection[str], now: Collection[str], known: Collection[str], *, is_reported: bool
) -> Mapping[str, int]:
    """The files that were `listed` before and are not there `now`, each with the number of scans that reported it.

    A file counts until the database has recorded the deletion and no longer knows it. Files that were never listed do not
    count: the folder may not be filled yet.
    """
    scans = {**dict.fromkeys(listed, 0), **before}
    return {path: number + is_reported for path, number in scans.items() if path in known and path not in now}


class Report(NamedTuple):
    """The last report of a file, its digest then, and when it is repeated if the database still lacks that digest."""

    digest: str
    repeat_at: float
    pause_s: float


def news(
    now: Mapping[str, str], known: Mapping[str, str | None], reported: Mapping[str, Report], at: float, *, absent_too: bool
) -> list[str]:
    """The paths to report, given the digests of all files `now`, those in the database, and the last reports.

    A file is reported when the database has another digest: once per content, and again after pauses that double, because it may
    have hung, or the daemon that parsed it may have ended. With `absent_too` a deleted file is reported, too, until the database
    has recorded the deletion.
    """
    differing = [path for path, digest in now.items() if digest != known.get(path) and _is_due(reported.get(path), digest, at)]
    absent = [path for path in known if path not in now and _is_due(reported.get(path), ABSENT, at)] if absent_too else []
    return sorted(differing) + sorted(absent)


def reports(
    now: Mapping[str, str], known: Mapping[str, str | None], before: Mapping[str, Report], sent: Sequence[str], at: float
) -> dict[str, Report]:
    """The last reports after those of the paths `sent`. A file that the database knows begins anew."""
    digests = {**dict.fromkeys(known, ABSENT), **now}
    kept = {path: report for path, report in before.items() if path in digests and digests[path] != known.get(path)}
    return kept | {path: _next_report(kept.get(path), digests[path], at) for path in sent}


def _is_due(report: Report | None, digest: str, at: float) -> bool:
    return report is None or report.digest != digest or at >= report.repeat_at


def _next_report(last: Report | None, digest: str, at: float) -> Report:
    first_s = ABSENT_PAUSE_S if digest == ABSENT else FIRST_PAUSE_S
    pause_s = first_s if last is None or last.digest != digest else min(last.pause_s * 2, LONGEST_PAUSE_S)
    return Report(digest, at + pause_s, pause_s)


def _is_candidate(path: str, ignore: Ignore) -> bool:
    """Whether the file may be a DAG file with a name in UTF-8, which events need. A folder like an archive has no archives."""
    is_named = path.endswith((".py", ARCHIVE)) and not (path.endswith(ARCHIVE) and archive_of(path))
    return is_named and not any("\ud800" <= character <= "\udfff" for character in path) and not ignore.file_itself(path)


def _stamp(entry: "os.DirEntry[str] | Path") -> Stamp | None:
    try:
        return stamp_of(entry.stat(follow_symlinks=False))
    except (OSError, ValueError):
        return None
