"""What editors, deployments and version control do to files, seen by the watcher on a real folder."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.dagfiles.conftest import Write, until
from tests.integration.dagfiles.watched_folder import SLOW, Database, quiet, watching
from tidegate.daemon.dagfiles.watch import digest
from tidegate.daemon.settings import Settings

MANY = 5000


def replaced(root: Path) -> None:
    (root / "a.py.tmp").write_text("2")
    (root / "a.py.tmp").replace(root / "a.py")


def with_backup(root: Path) -> None:
    """As vim does with `backupcopy=no`: the file is renamed, and another one written in its place."""
    (root / "4913").write_text("")
    (root / "4913").unlink()
    (root / "a.py").rename(root / "a.py~")
    (root / "a.py").write_text("2")
    (root / "a.py~").unlink()


def beside_swap_files(root: Path) -> None:
    """Of vim, and the lock and the autosave of Emacs."""
    (root / ".a.py.swp").write_text("swap")
    (root / ".#a.py").symlink_to("me@host.4711:1700000000")
    (root / "#a.py#").write_text("autosave")
    (root / "a.py").write_text("2")
    (root / ".#a.py").unlink()


def in_halves(root: Path) -> None:
    """Written without a pause that a watcher could take for the end."""
    with (root / "a.py").open("w") as file:
        file.write("#")
        file.flush()
        os.fsync(file.fileno())
        file.write(" whole")


@pytest.mark.parametrize("change", [replaced, with_backup, beside_swap_files, in_halves])
async def test_however_a_file_is_written_its_last_content_is_known_and_no_other_file(
    settings: Settings, database: Database, root: Path, write: Write, change: Callable[[Path], None]
) -> None:
    write("a.py", "1")
    async with watching(settings, database, scan_s=SLOW):
        await until(lambda: database.known == {"a.py": digest(root, "a.py")})
        change(root)
        await until(lambda: database.known == {"a.py": digest(root, "a.py")} and len(database.reports) > 1)

    assert set(database.reports) == {"a.py"}


async def test_a_renamed_file_is_known_at_once_and_its_former_name_gone_after_two_scans(
    settings: Settings, database: Database, root: Path, write: Write
) -> None:
    write("a.py", "1")
    async with watching(settings, database, scan_s=0.2):
        await until(lambda: database.reports == ["a.py"])
        (root / "a.py").rename(root / "b.py")
        await until(lambda: database.known == {"b.py": digest(root, "b.py")})

    assert sorted(database.reports) == ["a.py", "a.py", "a.py", "b.py"]


async def test_a_link_in_the_place_of_a_file_is_reported_once(
    settings: Settings, database: Database, root: Path, write: Write
) -> None:
    write("../elsewhere.py", "2")
    write("a.py", "1")
    async with watching(settings, database, scan_s=SLOW):
        await until(lambda: database.reports == ["a.py"])
        (root / "a.py").unlink()
        (root / "a.py").symlink_to(root.parent / "elsewhere.py")
        await until(lambda: database.reports == ["a.py", "a.py"])
        await quiet()

    assert database.reports == ["a.py", "a.py"]


async def test_five_thousand_changes_at_once_are_all_seen(settings: Settings, database: Database, root: Path) -> None:
    names = [f"{number:04}.py" for number in range(MANY)]
    async with watching(settings, database, scan_s=SLOW):
        for name in names:
            (root / name).write_text("1")
        await until(lambda: len(database.known) == MANY)
        for name in names:
            (root / name).write_text("22")
        last = digest(root, names[0])
        await until(lambda: set(database.known.values()) == {last})

    assert set(database.reports) == {*names}
