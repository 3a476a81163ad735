"""What several checkouts keep in one cache at once."""

from pathlib import Path

import pytest

from tests.kept import keeping, require_writable
from tidegate.daemon.standalone.process import ServerError


def test_files_that_are_made_at_once_do_not_touch_each_other(tmp_path: Path) -> None:
    with keeping(tmp_path / "a") as first, keeping(tmp_path / "a") as second:
        first.write_text("first")
        second.write_text("second")
        assert (first.read_text(), (tmp_path / "a").exists()) == ("first", False)

    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "first")]


def test_of_folders_that_are_made_at_once_the_first_one_stays(tmp_path: Path) -> None:
    with keeping(tmp_path / "a") as first, keeping(tmp_path / "a") as second:
        for folder in (first, second):
            folder.mkdir()
            (folder / folder.name).write_text("")

    assert [path.name for path in tmp_path.rglob("*")] == ["a", second.name]


def test_a_failure_keeps_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), keeping(tmp_path / "a"):
        (tmp_path / "b").rename(tmp_path / "a")

    assert list(tmp_path.iterdir()) == []


def test_a_cache_where_nothing_can_be_kept_is_named(tmp_path: Path) -> None:
    require_writable(tmp_path)

    with pytest.raises(
        ServerError, match=r"/none cannot hold the files of tests: No such file or directory; set TIDEGATE_CACHE "
    ):
        require_writable(tmp_path / "none")

    assert list(tmp_path.iterdir()) == []
