"""Archives stay in memory up to a bound; beyond it they are unpacked again, and read the same."""

import io
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest

from tidegate.daemon.dagfiles import source
from tidegate.daemon.dagfiles.archive import read_modules
from tidegate.daemon.dagfiles.source import LEAST_WEIGHT, Archives, RefusedError

NAMES = ("a.zip", "b.zip", "c.zip")


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the archives in the order in which they are unpacked."""
    found: list[str] = []

    def read(file: io.FileIO) -> Mapping[str, str]:
        modules = read_modules(file)
        found.extend(modules.values())
        return modules

    monkeypatch.setattr(source, "read_modules", read)
    return found


def pack(path: Path, text: str) -> None:
    with ZipFile(path, "w") as archive:
        archive.writestr("daily.py", text)


def texts(archives: Archives, root: Path) -> list[str]:
    opened = [archives.open(root, name) for name in NAMES]
    return [archive.modules["daily.py"].source for archive in opened if archive is not None]


@pytest.mark.parametrize(
    ("most", "again"),
    [
        pytest.param(3 * LEAST_WEIGHT, ["changed"], id="all fit"),
        pytest.param(2 * LEAST_WEIGHT, ["a.zip", "changed", "c.zip"], id="one more than fit"),
        pytest.param(0, ["a.zip", "changed", "c.zip"], id="none fits"),
    ],
)
def test_more_archives_than_stay_in_memory_are_unpacked_again_and_read_the_same(
    most: int, again: list[str], unpacked: list[str], tmp_path: Path
) -> None:
    archives = Archives(most)
    for name in NAMES:
        pack(tmp_path / name, name)

    first, second = texts(archives, tmp_path), texts(archives, tmp_path)
    unpacked.clear()
    pack(tmp_path / "b.zip", "changed")
    third = texts(archives, tmp_path)

    assert first == second == list(NAMES)
    assert third == ["a.zip", "changed", "c.zip"]
    assert unpacked == again


def test_a_refused_archive_is_refused_until_it_changes_and_a_missing_one_is_none(tmp_path: Path) -> None:
    archives, path = Archives(LEAST_WEIGHT), tmp_path / "a.zip"
    path.write_text("broken")
    for _ in range(2):
        with pytest.raises(RefusedError, match="no valid zip archive"):
            archives.open(tmp_path, "a.zip")
    pack(path, "mended")
    mended = archives.open(tmp_path, "a.zip")
    path.unlink()

    assert mended is not None
    assert archives.open(tmp_path, "a.zip") is None
