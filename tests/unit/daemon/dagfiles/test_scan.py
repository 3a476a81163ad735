"""What is news in the DAG folder."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tidegate.daemon.dagfiles.scan import Stamp, changed, listing, news

OLD, NEW = (1, 1, 1), (1, 2, 2)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({}, {}, []),
        ({}, {"a.py": OLD}, ["a.py"]),
        ({"a.py": OLD}, {"a.py": OLD}, []),
        ({"a.py": OLD}, {"a.py": NEW}, ["a.py"]),
        ({"a.py": OLD}, {}, []),
        ({"a.py": OLD}, {"a.py": OLD, "b.py": OLD}, ["b.py"]),
    ],
)
def test_files_are_read_again_when_their_stamps_differ(
    before: Mapping[str, Stamp], now: Mapping[str, Stamp], expected: list[str]
) -> None:
    assert changed(before, now) == expected


@pytest.mark.parametrize(
    ("now", "known", "reported", "absent_too", "expected"),
    [
        ({}, {}, {}, True, []),
        ({"a.py": "1"}, {}, {}, False, ["a.py"]),
        ({"a.py": "1"}, {"a.py": "1"}, {}, True, []),
        ({"a.py": "2"}, {"a.py": "1"}, {}, False, ["a.py"]),
        ({"a.py": "2"}, {"a.py": "1"}, {"a.py": "2"}, True, []),
        ({"a.py": "1"}, {"a.py": "2"}, {"a.py": "2"}, False, ["a.py"]),
        ({"a.py": "1"}, {"a.py": None}, {}, False, ["a.py"]),
        ({"a.py": ""}, {}, {}, False, ["a.py"]),
        ({"a.py": ""}, {"a.py": ""}, {}, False, []),
        ({}, {"a.py": "1"}, {}, False, []),
        ({}, {"a.py": "1"}, {}, True, ["a.py"]),
        ({}, {"a.py": None}, {}, True, ["a.py"]),
        ({}, {"a.py": None}, {"a.py": "1"}, True, ["a.py"]),
        ({"b.py": "1", "a.py": "1"}, {"d.py": "1", "c.py": "1"}, {}, True, ["a.py", "b.py", "c.py", "d.py"]),
    ],
)
def test_what_the_database_does_not_know_is_news_once_and_what_is_gone_until_it_knows_that(
    now: Mapping[str, str], known: Mapping[str, str | None], reported: Mapping[str, str], absent_too: bool, expected: list[str]
) -> None:
    assert news(now, known, reported, absent_too=absent_too) == expected


def test_a_listing_has_the_python_files_at_any_depth(tmp_path: Path) -> None:
    for path in ("a.py", "team/b.py", "team/deep/c.py", "team/readme.md", ".git/d.py", "__pycache__/e.py", "skip/f.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / ".tidegateignore").write_text("skip/\n")

    found = listing(tmp_path)

    assert sorted(found.files) == ["a.py", "team/b.py", "team/deep/c.py"]
    assert found.unreadable == ()


def test_a_listing_shows_links_to_files_and_does_not_follow_links_to_folders(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.py").touch()
    root = tmp_path / "dags"
    root.mkdir()
    (root / "file.py").symlink_to(tmp_path / "elsewhere" / "a.py")
    (root / "folder").symlink_to(tmp_path / "elsewhere")

    assert list(listing(root).files) == ["file.py"]


def test_a_name_that_no_event_can_carry_is_left_out(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.py")).touch()

    assert listing(tmp_path).files == {}


def test_a_folder_that_is_no_folder_is_named_as_unreadable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert listing(tmp_path / "file").unreadable == (".",)


def test_a_stamp_changes_with_the_content_even_where_size_and_time_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("1")
    before = listing(tmp_path).files
    times = file.stat()

    file.write_text("2")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert changed(before, listing(tmp_path).files) == ["a.py"]
