"""The watcher on a real folder; what the database would know is a dict of the test."""

import os
import shutil
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest
from structlog.testing import capture_logs

from tests.integration.dagfiles.conftest import Write, until
from tidegate.daemon.dagfiles.watch import digest, watch
from tidegate.daemon.settings import Settings
from tidegate.schemas.error import UnavailableError

SLOW = 3600.0
"""So long between two scans that a test sees inotify alone."""


class Database:
    """What a daemon would do with the reports: record the file, or count how often it was absent."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.known: dict[str, str | None] = {}
        self.absent: dict[str, int] = {}
        self.reports: list[str] = []
        self.is_away = False
        self.is_slow = False

    async def publish(self, paths: Sequence[str]) -> None:
        self.reports += paths
        for path in paths if not self.is_slow else ():
            self._record(path)

    async def digests(self) -> Mapping[str, str | None]:
        if self.is_away:
            raise UnavailableError("Postgres is not available", server="Postgres")
        return dict(self.known)

    def _record(self, path: str) -> None:
        if (self.root / path).exists():
            self.known[path] = digest(self.root, path)
            return
        self.known[path] = None
        self.absent[path] = self.absent.get(path, 0) + 1
        if self.absent[path] == 2:
            del self.known[path]


@pytest.fixture
def database(root: Path) -> Database:
    return Database(root)


@asynccontextmanager
async def watching(settings: Settings, database: Database, *, scan_s: float) -> AsyncIterator[None]:
    settings = msgspec.structs.replace(settings, dags_scan_s=scan_s)
    async with anyio.create_task_group() as tg:
        await tg.start(watch, settings, database.publish, database.digests)
        yield
        tg.cancel_scope.cancel()


async def quiet() -> None:
    """Long enough for several scans."""
    await anyio.sleep(0.6)


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
            await until(lambda before=reports: len(database.reports) > before)  # type: ignore[misc]

    assert database.reports == ["a.py", "a.py", "a.py"]


async def test_a_file_that_is_gone_is_reported_by_two_scans_and_no_more(settings: Settings, database: Database) -> None:
    database.known["gone.py"] = "digest"

    async with watching(settings, database, scan_s=0.1):
        await until(lambda: database.reports == ["gone.py", "gone.py"])
        await quiet()

    assert database.reports == ["gone.py", "gone.py"]


async def test_between_two_scans_a_file_that_is_gone_is_not_reported(
    settings: Settings, database: Database, root: Path, write: Write
) -> None:
    write("a.py", "1")

    async with watching(settings, database, scan_s=SLOW):
        await until(lambda: database.reports == ["a.py"])
        (root / "a.py").unlink()
        await quiet()

    assert database.reports == ["a.py"]


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
