"""The watcher where the database or the DAG folder is not there."""

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from structlog.testing import capture_logs
from watchfiles import main

from tests import waiting
from tests.integration.dagfiles.conftest import Write, until
from tests.integration.dagfiles.watched_folder import SLOW, Database, quiet, watching
from tests.unlistable import NAME, unlistable
from tidegate.daemon.dagfiles import scan, watch
from tidegate.daemon.dagfiles.ignore import IGNORE_FILE
from tidegate.daemon.dagfiles.message import NOT_READ
from tidegate.daemon.dagfiles.stamp import stamp_of
from tidegate.daemon.dagfiles.watch import Scanner, digest
from tidegate.daemon.settings import Settings


async def test_a_database_that_is_away_loses_nothing_and_is_said_once(
    settings: Settings, database: Database, write: Write
) -> None:
    database.is_away = True

    with capture_logs() as logs:
        async with watching(settings, database, scan_s=SLOW):
            write("a.py", "1")
            await until(lambda: database.asked > 2)
            assert database.reports == []
            database.is_away = False
            await until(lambda: database.reports == ["a.py"])

    assert [line["event"] for line in logs] == ["dag_scan_postponed"]


async def test_a_dag_folder_that_is_missing_is_said_once_and_waited_for(
    settings: Settings, database: Database, root: Path, write: Write
) -> None:
    os.rmdir(root)
    database.known["a.py"] = "digest"

    with capture_logs() as logs:
        async with watching(settings, database, scan_s=0.1):
            await until(lambda: bool(missing(logs)))
            await quiet()
            assert database.reports == []
            write("b.py", "1")
            await until(lambda: "b.py" in database.reports)

    assert missing(logs) == [str(root)]


def missing(logs: Sequence[Any]) -> list[str]:
    return [line["folder"] for line in logs if line["event"] == "dag_folder_missing"]


async def test_a_dag_folder_that_is_replaced_is_watched_again(
    settings: Settings, database: Database, root: Path, write: Write
) -> None:
    async with watching(settings, database, scan_s=SLOW):
        await quiet()
        shutil.move(root, root.parent / "old")
        shutil.copytree(root.parent / "old", root)
        await anyio.sleep(2.5)
        write("a.py", "1")
        await until(lambda: set(database.reports) == {"a.py"})  # a scan of the new folder may find it, too


async def test_a_file_server_that_does_not_answer_holds_up_nothing_but_the_watcher(
    settings: Settings, database: Database, root: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "POLL_S", 0.1)
    stat, asked, answers, gave_up = os.stat, threading.Event(), threading.Event(), threading.Event()

    def wait(path: Any, **options: Any) -> os.stat_result:
        if path == root:
            asked.set()
            if not answers.wait(30):
                gave_up.set()
        return stat(path, **options)

    write("a.py", "1")
    async with watching(settings, database, scan_s=SLOW):
        await until(lambda: database.reports == ["a.py"])
        monkeypatch.setattr(os, "stat", wait)
        await until(asked.is_set)
    was_waited_for = gave_up.is_set()
    answers.set()

    assert not was_waited_for


async def test_a_folder_that_cannot_be_watched_is_said_once_and_tried_again_after_pauses(
    settings: Settings, database: Database, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "POLL_S", 0.01)
    tries: list[float] = []

    def refuse(*_: object, **__: object) -> None:
        tries.append(anyio.current_time())
        raise RuntimeError("OS file watch limit reached")

    monkeypatch.setattr(main, "RustNotify", refuse)
    with capture_logs() as logs:
        async with watching(settings, database, scan_s=SLOW):
            await until(lambda: len(tries) > 4)

    pauses = [after - before for before, after in pairwise(tries)]
    assert [(line["event"], line["error"]) for line in logs] == [
        ("dag_folder_not_watched", "RuntimeError: OS file watch limit reached")
    ]
    assert pauses[3] >= 0.16


async def test_the_watcher_that_is_cancelled_does_not_wait_for_inotify(
    settings: Settings, database: Database, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "POLL_S", 90.0)

    def is_heard() -> bool:
        """The first scan finds the first text; only a watcher that listens finds another one."""
        if database.reports.count("a.py") > 1:
            return True
        write("a.py", uuid4().hex)
        return False

    with anyio.move_on_after(70) as patience:
        async with watching(settings, database, scan_s=SLOW):
            await waiting.until(is_heard, 60, every_s=0.5)

    assert not patience.cancel_called  # a thread that waits is not cancelled, so that no TimeoutError would come


async def test_a_folder_that_cannot_be_read_keeps_its_own_files_and_no_others(
    database: Database, root: Path, write: Write
) -> None:
    scanner, closed = Scanner(root, database.publish, database.files), unlistable(root)
    database.known |= {f"{closed}/team/b.py": "digest", f"{NAME}.py": "digest"}
    write("a.py", "1")

    with capture_logs() as logs:
        await scanner.scan(absent_too=False)
        (root / "a.py").unlink()
        await scanner.scan(absent_too=False)
        seen_at_once, looks_again = database.reports.copy(), scanner.looks_again
        await scanner.scan(absent_too=True)

    assert (seen_at_once, looks_again) == (["a.py"], True)
    assert sorted(database.reports) == ["a.py", "a.py", f"{NAME}.py"]
    assert [(line["event"], line["folders"]) for line in logs] == [("dag_folder_unreadable", (closed,))]


async def test_a_file_that_was_hidden_and_never_seen_waits_for_full_scans(database: Database, root: Path, write: Write) -> None:
    """A mount may show its folder before it is filled."""
    scanner, closed = Scanner(root, database.publish, database.files), unlistable(root)
    write("a.py", "1")
    await scanner.scan(absent_too=False)
    database.known[f"{closed}/b.py"] = "digest"
    await scanner.scan(absent_too=False)

    (root / NAME).rename(root.parent / "closed")
    await scanner.scan(absent_too=False)

    assert scanner.looks_again is False


async def test_a_file_that_was_seen_before_it_was_hidden_is_looked_for_again(
    database: Database, root: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanner = Scanner(root, database.publish, database.files)
    write("team/a.py", "1")
    await scanner.scan(absent_too=False)

    with monkeypatch.context() as patch:
        hide(patch, root / "team")
        await scanner.scan(absent_too=False)
        while_hidden = scanner.looks_again
    (root / "team" / "a.py").unlink()
    await scanner.scan(absent_too=False)

    assert (while_hidden, scanner.looks_again) == (False, True)


async def test_each_folder_that_cannot_be_read_is_said_once(
    database: Database, root: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanner = Scanner(root, database.publish, database.files)
    for folder in "one", "two":
        write(f"{folder}/a.py", "1")

    with capture_logs() as logs:
        for closed in (["one"], ["one", "two"], ["two"], ["one", "two"]):
            with monkeypatch.context() as patch:
                hide(patch, *(root / folder for folder in closed))
                await scanner.scan(absent_too=False)

    assert [line["folders"] for line in logs] == [("one",), ("two",), ("one",)]


async def test_a_file_whose_read_fails_delays_no_other_and_is_read_again(
    database: Database, root: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanner, read = Scanner(root, database.publish, database.files), os.read
    write("a.py", "1")
    write("b.py", "2")

    def fail_once(file: int, count: int) -> bytes:
        monkeypatch.setattr(os, "read", read)
        raise OSError(errno.EIO, os.strerror(errno.EIO), file, count)

    monkeypatch.setattr(os, "read", fail_once)
    for _ in range(2):
        await scanner.scan(absent_too=False)

    assert {path: database.known[path] for path in ("a.py", "b.py")} == {path: digest(root, path) for path in ("a.py", "b.py")}


async def test_a_file_that_changes_again_in_the_same_tick_of_its_file_system_is_read_again(
    database: Database, root: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanner, now = Scanner(root, database.publish, database.files), time.time_ns()
    monkeypatch.setattr(scan, "stamp_of", lambda status: (*stamp_of(status)[:3], now, now))

    for text in ("1", "2"):
        write("a.py", text)
        await scanner.scan(absent_too=False)

    assert (database.reports, database.known) == (["a.py"] * 2, {"a.py": digest(root, "a.py")})


async def test_files_are_read_at_once_when_the_ignore_file_is_mended(database: Database, root: Path, write: Write) -> None:
    scanner, ignore = Scanner(root, database.publish, database.files), root / IGNORE_FILE
    for path in ("a.py", "moved.py", "drafts/a.py"):
        write(path, "1")
    write(IGNORE_FILE, "drafts/\n")
    await scanner.scan(absent_too=True)

    with capture_logs() as logs:
        await spoilt(scanner, root, write)
    whiles, known = database.reports[2:], database.known.copy()
    ignore.unlink()
    write(IGNORE_FILE, "drafts/\n")
    await scanner.scan(absent_too=False)

    assert (database.reports[:2], whiles) == (["a.py", "moved.py"], ["a.py"])
    assert (known["a.py"], database.known["a.py"]) == (NOT_READ, digest(root, "a.py"))
    assert [line["event"] for line in logs] == ["dag_ignore_file_unreadable"]
    assert (database.reports[3:], scanner.looks_again) == (["a.py", "new.py"], True)


async def spoilt(scanner: Scanner, root: Path, write: Write) -> None:
    """Scans while the ignore file cannot be read, and DAG files change."""
    (root / IGNORE_FILE).unlink()
    (root / IGNORE_FILE).symlink_to("missing")
    write("a.py", "2")
    (root / "moved.py").rename(root / "new.py")
    for _ in range(3):
        await scanner.scan(absent_too=True)
    assert scanner.looks_again is False


def hide(patch: pytest.MonkeyPatch, *folders: Path) -> None:
    """Let these folders not be listed, as for a user who may not read them; root may read all."""
    scandir = os.scandir

    def refuse(path: Path) -> Any:
        if path in folders:
            raise PermissionError(path)
        return scandir(path)

    patch.setattr(os, "scandir", refuse)


async def test_a_file_that_a_replaced_folder_lacks_waits_for_full_scans(database: Database, root: Path, write: Write) -> None:
    """A deployment may fill the new folder for longer than an editor takes to replace a file."""
    scanner, old = Scanner(root, database.publish, database.files), root.parent / "old"
    looks: list[bool] = []

    def replace() -> None:
        root.rename(old)
        root.mkdir()

    async def note(change: Callable[[], object]) -> None:
        write("a.py", "1")
        await scanner.scan(absent_too=not looks)
        change()
        await scanner.scan(absent_too=False)
        looks.append(scanner.looks_again)

    await note((root / "a.py").unlink)
    await note(replace)
    await note(lambda: root.rename(old / "gone"))
    (old / "gone").rename(root)
    (root / "a.py").unlink()
    await scanner.scan(absent_too=False)

    assert [*looks, scanner.looks_again] == [True, False, False, False]
    assert database.reports == ["a.py"]
