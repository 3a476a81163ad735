"""Watch the DAG folder: report files that changed, within a moment by inotify, and by a slow scan whatever was missed."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

import anyio
import structlog
from anyio.abc import TaskStatus
from watchfiles import awatch

from tidegate.daemon.dagfiles.ignore import IGNORE_FILE
from tidegate.daemon.dagfiles.scan import Listing, Stamp, changed, listing, news
from tidegate.daemon.dagfiles.source import RefusedError, read
from tidegate.daemon.settings import Settings, dags_root
from tidegate.daemon.wake import Signal
from tidegate.schemas.error import UnavailableError

log = structlog.get_logger()

Publish = Callable[[Sequence[str]], Awaitable[None]]
Known = Callable[[], Awaitable[Mapping[str, str | None]]]

SETTLE_MS = 20
"""A file that was just written is looked at when nothing more happened for so long, …"""
SETTLE_AT_MOST_MS = 500
"""… or after this long at the latest."""
LOOK_AGAIN_S = 1.0
"""How soon it is noticed that the DAG folder appeared, or was replaced by another, or that a server is back."""


class Scanner:
    """Looks through the DAG folder and reports what is new since it last did."""

    def __init__(self, root: Path, publish: Publish, known: Known) -> None:
        self._root = root
        self._publish = publish
        self._known = known
        self._stamps: Mapping[str, Stamp] = {}
        self._digests: dict[str, str] = {}
        self._reported: dict[str, str] = {}
        self._complaints: set[str] = set()

    async def scan(self, *, absent_too: bool) -> bool:
        """Report what changed; with `absent_too` also what is gone, unless part of the folder cannot be read.

        Where the folder is not there nothing is reported. False: a server did not answer, and all is to be done again.
        """
        found = await anyio.to_thread.run_sync(self._look)
        self._complain("dag_folder_missing", holds=found is None, folder=str(self._root))
        if found is None:
            return True
        self._complain("dag_folder_unreadable", holds=bool(found.unreadable), folders=found.unreadable)
        try:
            await self._report(absent_too=absent_too and not found.unreadable)
        except UnavailableError as error:
            self._complain("dag_scan_postponed", holds=True, reason=str(error))
            return False
        self._complain("dag_scan_postponed", holds=False)
        return True

    async def _report(self, *, absent_too: bool) -> None:
        paths = news(self._digests, await self._known(), self._reported, absent_too=absent_too)
        if paths:
            await self._publish(paths)
        for path in paths:
            if path in self._digests:
                self._reported[path] = self._digests[path]
            else:
                self._reported.pop(path, None)

    def _look(self) -> Listing | None:
        """List the folder and read the files whose stamps are new. Runs in a thread; only one at a time."""
        if not self._root.is_dir():
            return None
        found = listing(self._root)
        for path in changed(self._stamps, found.files):
            self._digests[path] = digest(self._root, path)
        self._digests = {path: self._digests[path] for path in found.files}
        self._stamps = found.files
        return found

    def _complain(self, event: str, *, holds: bool, **facts: object) -> None:
        """Say it once, until it holds no more."""
        if holds and event not in self._complaints:
            log.warning(event, **facts)
        (self._complaints.add if holds else self._complaints.discard)(event)


async def watch(
    settings: Settings,
    publish: Publish,
    known: Known,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """For ever: call `publish` with the paths, relative to the DAG folder, of files that changed or are gone.

    `known` gives the digest of every file that the database has, until it takes the file for gone.
    """
    root = dags_root(settings)
    scanner = Scanner(root, publish, known)
    signal = Signal()
    async with anyio.create_task_group() as tg:
        tg.start_soon(_listen, root, signal)
        task_status.started()
        due = anyio.current_time()
        while True:
            is_due = anyio.current_time() >= due
            if not await scanner.scan(absent_too=is_due):
                await anyio.sleep(LOOK_AGAIN_S)
                continue
            if is_due:
                due = anyio.current_time() + settings.dags_scan_s
            await signal.wait(due - anyio.current_time())


def digest(root: Path, path: str) -> str:
    """What the parser will give as the file's digest."""
    try:
        source = read(root, path)
    except RefusedError as error:
        return error.digest
    return source.digest if source is not None else ""


async def _listen(root: Path, signal: Signal) -> None:
    """Ring whenever something happens in the folder."""
    is_deaf = False
    while True:
        if (here := _identity(root)) is not None:
            try:
                await _listen_in(root, here, signal)
                is_deaf = False
            except OSError as error:
                if not is_deaf:
                    log.warning("dag_folder_not_watched", folder=str(root), error=str(error), hint="only scans find changes")
                is_deaf = True
        await anyio.sleep(LOOK_AGAIN_S)


async def _listen_in(root: Path, here: tuple[int, int], signal: Signal) -> None:
    """Until another folder is in the place of this one, or none."""
    stop = anyio.Event()
    changes = awatch(
        root,
        watch_filter=lambda _, path: _concerns(root, path),
        step=SETTLE_MS,
        debounce=SETTLE_AT_MOST_MS,
        rust_timeout=int(LOOK_AGAIN_S * 1000),
        yield_on_timeout=True,
        ignore_permission_denied=True,
        stop_event=stop,
    )
    async with anyio.create_task_group() as tg, aclosing(changes):
        tg.start_soon(_set_when_cancelled, stop)
        # What happened before the watch began was not heard.
        unheard = True
        async for batch in changes:
            if batch or unheard:
                signal.set()
            unheard = False
            if _identity(root) != here:
                break
        tg.cancel_scope.cancel()


async def _set_when_cancelled(stop: anyio.Event) -> None:
    """awatch waits in a thread, which hears of nothing but this event."""
    try:
        await anyio.sleep_forever()
    finally:
        stop.set()


def _concerns(root: Path, path: str) -> bool:
    """Whether it may be a DAG file, or a folder of them; one that is gone is found by a scan."""
    name = Path(path).name
    return name.endswith(".py") or Path(path) == root / IGNORE_FILE or Path(path).is_dir()


def _identity(root: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(root)
    except OSError:
        return None
    return found.st_dev, found.st_ino
