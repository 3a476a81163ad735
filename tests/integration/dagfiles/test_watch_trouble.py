"""The watcher where the database or the DAG folder is not there."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import anyio
from structlog.testing import capture_logs

from tests.integration.dagfiles.conftest import Write, until
from tests.integration.dagfiles.watched_folder import SLOW, Database, quiet, watching
from tidegate.daemon.dagfiles.watch import Scanner
from tidegate.daemon.settings import Settings


async def test_a_database_that_is_away_loses_nothing_and_is_said_once(
    settings: Settings, database: Database, write: Write
) -> None:
    database.is_away = True

    with capture_logs() as logs:
        async with watching(settings, database, scan_s=SLOW):
            write("a.py", "1")
            await anyio.sleep(1.2)
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
            await quiet()
            assert database.reports == []
            write("b.py", "1")
            await until(lambda: "b.py" in database.reports)

    assert [line["folder"] for line in logs if line["event"] == "dag_folder_missing"] == [str(root)]


async def test_a_dag_folder_that_is_replaced_is_watched_again(
    settings: Settings, database: Database, root: Path, write: Write
) -> None:
    async with watching(settings, database, scan_s=SLOW):
        await quiet()
        shutil.move(root, root.parent / "old")
        shutil.copytree(root.parent / "old", root)
        await anyio.sleep(2.5)
        write("a.py", "1")
        await until(lambda: database.reports == ["a.py"])


async def test_the_watcher_stops_at_once_when_it_is_cancelled(settings: Settings, database: Database) -> None:
    async with watching(settings, database, scan_s=SLOW):
        # inotify is asked anew each second: be early in one.
        await anyio.sleep(1.2)
        started = time.monotonic()

    assert time.monotonic() - started < 0.6


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
