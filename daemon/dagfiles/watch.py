"""Watches the DAG folder: reports changed files within milliseconds by inotify, and missed ones by a slow scan."""

import os
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

import anyio
import structlog
from anyio.abc import TaskStatus
from watchfiles import awatch

from tidegate.daemon.dagfiles.ignore import IGNORE_FILE
from tidegate.daemon.dagfiles.message import NOT_READ
from tidegate.daemon.dagfiles.reading import in_thread
from tidegate.daemon.dagfiles.scan import Listing, Report, changed, disappeared, listing, news, reported_files, reports, stamps
from tidegate.daemon.dagfiles.source import RefusedError, content_digest, read, with_imports
from tidegate.daemon.dagfiles.stamp import Stamp, is_young
from tidegate.daemon.fault_log import LoggedStates
from tidegate.daemon.restart import first_of
from tidegate.daemon.settings import Settings, dags_root
from tidegate.daemon.wake import Signal
from tidegate.handlers.dag_file_changed import ABSENT_SCANS
from tidegate.schemas.dag import ARCHIVE, REPEAT_DIGEST, archive_of
from tidegate.schemas.error import UnavailableError, described
from tidegate.schemas.queries.files import KnownFile

log = structlog.get_logger()

Publish = Callable[[Sequence[str]], Awaitable[None]]
Known = Callable[[], Awaitable[Mapping[str, KnownFile]]]
NoteRead = Callable[[], Awaitable[None]]

SETTLE_MS = 20
"""A changed file is read after this time without further changes, …"""
SETTLE_AT_MOST_MS = 500
"""… or after this long at the latest."""
POLL_S = 1.0
"""Polling interval for a missing or replaced DAG folder, and after an outage; …"""
LONGEST_PAUSE_S = 60.0
"""… its pauses double up to this one while the folder cannot be watched."""
READ_S = 0.2
"""Until all files have been applied once, the next scan comes after this time."""
CONFIRM_S = 1.0
"""A file that disappeared is looked for again after this time. Replacing a file by a rename takes less."""


class Scanner:
    """Scans the DAG folder and reports changes since the last scan. `imports` are the files that DAG files depend on.

    `note_read` is called at the first scan that finds the result of each file in the database.
    """

    def __init__(self, root: Path, publish: Publish, known: Known, note_read: NoteRead | None = None) -> None:
        self._root = root
        self._publish = publish
        self._known = known
        self._note_read = note_read
        self._stamps: Mapping[str, Stamp] = {}
        self.imports: frozenset[str] = frozenset()
        self._digests: dict[str, str] = {}
        self._reports: dict[str, Report] = {}
        self._recorded: Collection[str] = ()
        self._place: tuple[int, int] | None = None
        self._listed: Collection[str] = ()
        self._disappeared: Mapping[str, int] = {}
        self._states = LoggedStates()
        self._problem = ""

    @property
    def looks_again(self) -> bool:
        """Whether the next scan is due soon: a file has disappeared, and too few scans without it are recorded."""
        return any(scans <= ABSENT_SCANS for scans in self._disappeared.values())

    @property
    def awaits_results(self) -> bool:
        """Whether the results of all files have never been seen yet in the database, and there is a folder."""
        return self._note_read is not None and self._place is not None

    async def scan(self, *, absent_too: bool) -> bool:
        """Report changed files; with `absent_too` also deleted ones, but none of a folder that cannot be read.

        A missing folder reports nothing. False when a server did not answer and the scan has to be repeated.
        """
        try:
            await self._report(await self._known(), absent_too=absent_too)
        except UnavailableError as error:
            self._warn_once("dag_scan_postponed", holds=True, reason=str(error))
            return False
        self._warn_once("dag_scan_postponed", holds=False)
        return True

    async def _report(self, known: Mapping[str, KnownFile], *, absent_too: bool) -> None:
        self.imports = frozenset[str]().union(*(file.imports for file in known.values()))
        found = await in_thread(self._list)
        self._warn_once("dag_folder_missing", holds=found is None, folder=str(self._root))
        if found is None:
            return
        self._note_trouble(found)
        present, hidden = self._seen(found, known)
        recorded = {path: file.digest for path, file in known.items() if path not in hidden}
        self._note_absence(present, hidden, known, is_reported=absent_too)
        now = anyio.current_time()
        paths = news(present, recorded, self._reports, now, absent_too=absent_too)
        if paths:
            files = await in_thread(reported_files, self._root, paths)
            await self._publish(list(dict.fromkeys(files.values())))
        self._reports = reports(present, recorded, self._reports, paths, now)
        if self._note_read is not None and are_applied(present, recorded):
            await self._note_read()
            self._note_read = None

    def _note_trouble(self, found: Listing) -> None:
        """Log what cannot be read, each folder once. Files that `.tidegateignore` kept back are reported once it is mended."""
        if closed := self._states.begun("dag_folder_unreadable", found.unreadable):
            log.warning("dag_folder_unreadable", folders=tuple(closed))
        self._warn_once("dag_ignore_file_unreadable", holds=bool(found.problem), reason=found.problem)
        if found.problem != self._problem:
            self._reports = {}
        self._problem = found.problem

    def _seen(self, found: Listing, known: Mapping[str, KnownFile]) -> tuple[Mapping[str, str], set[str]]:
        """The digests of the files that are there, and the files of which that is not known.

        While it is not known which files are ignored, new ones may be, and no file counts as gone: a new one may have its DAGs.
        """
        present, all_ = self._with_imports(found, known), {*known, *self._listed}
        if not found.problem:
            return present, found.hidden(all_)
        present = {path: digest for path, digest in present.items() if path in known}
        return present, all_ - present.keys()

    def _note_absence(
        self, present: Collection[str], hidden: Collection[str], known: Collection[str], *, is_reported: bool
    ) -> None:
        """Files that were refused are reported again once another file is recorded as deleted: its DAGs may be theirs.

        A hidden file has not disappeared. It counts as listed if it was so before it was hidden.
        """
        if any(path not in known for path in self._recorded):
            self._reports = {}
        self._recorded = frozenset(known)
        there = {*present, *hidden}
        self._disappeared = disappeared(self._disappeared, self._listed, there, known, is_reported=is_reported)
        self._listed = {*present, *(path for path in self._listed if path in hidden)}

    def _list(self) -> Listing | None:
        """List the folder and read changed files and imports. Runs in a thread, one at a time.

        Each scan reads files again that were not read: a disk or a file server may answer again without a change of the file.
        So it does with files that had just changed: another change may have left the same stamp.
        """
        began_ns = time.time_ns()
        self._note_place(_identity(self._root) if self._root.is_dir() else None)
        if self._place is None:
            return None
        found = listing(self._root)
        archives = {f"{path}/": stamp for path, stamp in found.files.items() if path.endswith(ARCHIVE)}
        now = {**stamps(self._root, self.imports - found.files.keys()), **found.files, **archives}
        for path in changed(self._stamps, now):
            self._digests[path] = content_digest(self._root, path)
        self._digests = {path: self._digests[path] for path in now}
        self._stamps = {
            path: stamp for path, stamp in now.items() if self._digests[path] != NOT_READ and not is_young(stamp, began_ns)
        }
        return found

    def _note_place(self, place: tuple[int, int] | None) -> None:
        """No file counts as disappeared from another folder than that of the last scan: it may not be filled yet."""
        if place != self._place:
            self._listed, self._disappeared = (), {}
        self._place = place

    def _with_imports(self, found: Listing, known: Mapping[str, KnownFile]) -> Mapping[str, str]:
        """The digests of the DAG files, each together with the files that it depended on when it was last parsed.

        The known files of an archive that is refused are there with its digest: what became of them is not known.
        """
        own = {path: f"{path}/" if path.endswith(ARCHIVE) else path for path in found.files}
        own |= {path: f"{archive}/" for path in known if (archive := archive_of(path)) in found.refused}
        return {path: self._with_imports_of(self._digests[key], known.get(path)) for path, key in own.items()}

    def _with_imports_of(self, digest: str, known: KnownFile | None) -> str:
        imports = () if known is None else known.imports
        return with_imports(digest, {imported: self._digests.get(imported, NOT_READ) for imported in imports})

    def _warn_once(self, event: str, *, holds: bool, **facts: object) -> None:
        """Log a warning once while it holds."""
        if self._states.begun(event, [event] if holds else []):
            log.warning(event, **facts)


async def watch(
    settings: Settings,
    publish: Publish,
    known: Known,
    note_read: NoteRead | None = None,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Call `publish` with the paths of changed and deleted files, relative to the DAG folder, for ever.

    `known` returns all files in the database, except those recorded as deleted. `note_read` is called once, when the folder has
    been read.
    """
    root = dags_root(settings)
    scanner = Scanner(root, publish, known, note_read)
    signal = Signal()
    async with anyio.create_task_group() as tg:
        tg.start_soon(_listen, root, scanner, signal)
        task_status.started()
        due = anyio.current_time()
        while True:
            is_due = anyio.current_time() >= due
            if not await scanner.scan(absent_too=is_due):
                await anyio.sleep(POLL_S)
                continue
            if is_due:
                due = anyio.current_time() + settings.dags_scan_s
            if scanner.looks_again:
                due = min(due, anyio.current_time() + CONFIRM_S)
            if scanner.awaits_results:
                due = min(due, anyio.current_time() + READ_S)
            await signal.wait(due - anyio.current_time())


def are_applied(present: Mapping[str, str], recorded: Mapping[str, str | None]) -> bool:
    """Whether the database has the result of each file that is there. A file that cannot be parsed has one: its problem."""
    return all(recorded.get(path) in (digest, REPEAT_DIGEST) for path, digest in present.items())


def digests(root: Path, paths: Iterable[str]) -> Mapping[str, str]:
    """The `digest` of each file."""
    return {path: digest(root, path) for path in paths}


def digest(root: Path, path: str) -> str:
    """The digest that the parser will record for the file if it depends on no others."""
    try:
        source = read(root, path)
    except RefusedError as error:
        return error.digest
    return source.digest if source is not None else ""


async def _listen(root: Path, scanner: Scanner, signal: Signal) -> None:
    """Set the signal at each change in the folder. Pauses grow while it cannot be watched, which reads all of its folders."""
    pause_s = POLL_S
    while True:
        if (here := await in_thread(_identity, root)) is not None:
            try:
                await _listen_in(root, here, scanner, signal)
                pause_s = POLL_S
            except* (OSError, RuntimeError) as errors:  # watchfiles raises either
                if pause_s == POLL_S:
                    reason = described(first_of(errors))
                    log.warning("dag_folder_not_watched", folder=str(root), error=reason, hint="only scans find changes")
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        await anyio.sleep(pause_s)


async def _listen_in(root: Path, here: tuple[int, int], scanner: Scanner, signal: Signal) -> None:
    """Watch until the folder is replaced or deleted."""
    stop = anyio.Event()
    changes = awatch(
        root,
        watch_filter=None,
        step=SETTLE_MS,
        debounce=SETTLE_AT_MOST_MS,
        rust_timeout=int(POLL_S * 1000),
        yield_on_timeout=True,
        ignore_permission_denied=True,
        stop_event=stop,
    )
    async with anyio.create_task_group() as tg, aclosing(changes):
        tg.start_soon(_set_when_cancelled, stop)
        # Changes before the watch began were missed.
        is_first = True
        async for batch in changes:
            now, is_concerned = await in_thread(_look, root, [path for _, path in batch], scanner.imports)
            if is_concerned or is_first:
                signal.set()
            is_first = False
            if now != here:
                break
        tg.cancel_scope.cancel()


async def _set_when_cancelled(stop: anyio.Event) -> None:
    """awatch waits in a thread, which cancellation does not reach; it stops by this event."""
    try:
        await anyio.sleep_forever()
    finally:
        stop.set()


def _look(root: Path, paths: Sequence[str], imports: Collection[str]) -> tuple[tuple[int, int] | None, bool]:
    """The identity of the folder, and whether one of the changed paths concerns DAG files."""
    return _identity(root), any(_concerns(root, path, imports) for path in paths)


def _concerns(root: Path, path: str, imports: Collection[str]) -> bool:
    """Whether the path may be a DAG file, an import of one, or a folder; deleted folders are found by a scan."""
    below = path.removeprefix(f"{root}/")
    return below.endswith((".py", ARCHIVE)) or below in imports or below == IGNORE_FILE or Path(path).is_dir()


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(root)
    except OSError:
        return None
    return found.st_dev, found.st_ino
