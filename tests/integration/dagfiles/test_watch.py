"""The watcher on a real folder; what the database would know is a dict of the test."""

import os
import shutil
from functools import partial
from pathlib import Path

from tests.integration.dagfiles.conftest import Write, until
from tests.integration.dagfiles.watched_folder import SLOW, Database, quiet, watching
from tidegate.daemon.dagfiles.watch import digest
from tidegate.daemon.settings import Settings


async def test_files_that_were_there_before_are_reported_at_the_start(
    settings: Settings, database: Database, write: Write
) -> None:
    write("a.py", "1")
    write("team/b.py", "2")

    async with watching(settings, database, scan_s=SLOW):
        await until(lambda: database.reports == ["a.py", "team/b.py"])


async def test_files_that_the_database_knows_are_not_reported(
    settings: Settings, database: Database, root: Path, write: Write
) -> None:
    write("a.py", "1")
    database.known["a.py"] = digest(root, "a.py")

    async with watching(settings, database, scan_s=0.1):
        await quiet()

    assert database.reports == []


async def test_a_file_that_is_written_is_reported_long_before_the_next_scan(
    settings: Settings, database: Database, write: Write
) -> None:
    async with watching(settings, database, scan_s=SLOW):
        await quiet()
        write("a.py", "1")
        await until(lambda: database.reports == ["a.py"])


async def test_a_file_in_a_new_folder_is_reported(settings: Settings, database: Database, root: Path, write: Write) -> None:
    write("../outside/team/a.py", "1")

    async with watching(settings, database, scan_s=SLOW):
        await quiet()
        shutil.move(root.parent / "outside" / "team", root / "team")
        await until(lambda: database.reports == ["team/a.py"])


async def test_a_change_is_reported_once_however_slow_the_database_is(
    settings: Settings, database: Database, write: Write
) -> None:
    database.is_slow = True
    write("a.py", "1")

    async with watching(settings, database, scan_s=0.1):
        await until(lambda: database.reports == ["a.py"])
        await quiet()

    assert database.reports == ["a.py"]


async def test_a_file_that_is_touched_but_not_changed_is_not_reported(
    settings: Settings, database: Database, root: Path, write: Write
) -> None:
    write("a.py", "1")
    database.known["a.py"] = digest(root, "a.py")

    async with watching(settings, database, scan_s=0.1):
        await quiet()
        os.utime(root / "a.py")
        await quiet()

    assert database.reports == []


async def test_a_file_that_is_changed_twice_is_reported_twice(settings: Settings, database: Database, write: Write) -> None:
    async with watching(settings, database, scan_s=SLOW):
        for text in ("1", "2", "1"):
            reports = len(database.reports)
            write("a.py", text)
            await until(partial(database.has_more_than, reports))

    assert database.reports == ["a.py", "a.py", "a.py"]


async def test_a_file_that_is_gone_is_reported_by_two_scans_and_no_more(settings: Settings, database: Database) -> None:
    database.known["gone.py"] = "digest"

    async with watching(settings, database, scan_s=0.1):
        await until(lambda: database.reports == ["gone.py", "gone.py"])
        await quiet()

    assert database.reports == ["gone.py", "gone.py"]


async def test_a_file_that_disappears_is_reported_twice_soon_and_then_the_refused_file_that_has_its_dags(
    settings: Settings, database: Database, root: Path, write: Write
) -> None:
    write("a.py", "1")
    database.refused = "moved.py"

    async with watching(settings, database, scan_s=SLOW):
        await until(lambda: database.reports == ["a.py"])
        (root / "a.py").rename(root / "moved.py")
        await until(lambda: database.reports == ["a.py", "moved.py", "a.py", "a.py", "moved.py"])


async def test_a_file_that_comes_back_is_reported_again(settings: Settings, database: Database, root: Path, write: Write) -> None:
    write("a.py", "1")

    async with watching(settings, database, scan_s=0.1):
        await until(lambda: database.reports == ["a.py"])
        (root / "a.py").unlink()
        await until(lambda: database.known == {})
        write("a.py", "1")
        await until(lambda: database.known == {"a.py": digest(root, "a.py")})


async def test_ignored_files_and_others_are_not_reported(settings: Settings, database: Database, write: Write) -> None:
    for path in ("a.txt", ".hidden.py", "drafts/a.py", "__pycache__/a.py"):
        write(path, "1")
    write(".tidegateignore", "drafts/\n")

    async with watching(settings, database, scan_s=0.1):
        await quiet()

    assert database.reports == []


async def test_a_file_that_is_ignored_from_now_on_is_reported_as_gone(
    settings: Settings, database: Database, root: Path, write: Write
) -> None:
    write("a.py", "1")

    async with watching(settings, database, scan_s=0.1):
        await until(lambda: database.reports == ["a.py"])
        database.is_slow = True
        write(".tidegateignore", "a.py\n")
        await until(lambda: database.reports[:3] == ["a.py", "a.py", "a.py"])

    assert digest(root, "a.py") == ""
