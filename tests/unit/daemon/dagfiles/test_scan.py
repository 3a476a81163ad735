"""What is news in the DAG folder."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tidegate.daemon.dagfiles.scan import Listing, Report, changed, disappeared, listing, news, reports, stamps
from tidegate.daemon.dagfiles.stamp import Stamp, stamp_of
from tidegate.schemas.dag import REPEAT_DIGEST

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
        ({}, {"a.py": "1"}, {"a.py": "absent"}, True, []),
        ({"a.py": "1"}, {}, {"a.py": "absent"}, True, ["a.py"]),
        ({"b.py": "1", "a.py": "1"}, {"d.py": "1", "c.py": "1"}, {}, True, ["a.py", "b.py", "c.py", "d.py"]),
    ],
)
def test_what_the_database_does_not_know_is_news_once_and_what_is_gone_until_it_knows_that(
    now: Mapping[str, str], known: Mapping[str, str | None], reported: Mapping[str, str], absent_too: bool, expected: list[str]
) -> None:
    last = {path: Report(digest, 60.0, 60.0) for path, digest in reported.items()}

    assert news(now, known, last, 59.0, absent_too=absent_too) == expected


def test_a_file_that_stays_unknown_is_reported_again_after_pauses_that_double() -> None:
    now, last, at = {"a.py": "1"}, dict[str, Report](), []
    for second in range(0, 20_000, 10):
        sent = news(now, {"a.py": REPEAT_DIGEST}, last, float(second), absent_too=False)
        last = reports(now, {"a.py": REPEAT_DIGEST}, last, sent, float(second))
        at += [second] if sent else []

    assert at == [0, 60, 180, 420, 900, 1860, 3780, 7380, 10980, 14580, 18180]


def test_a_file_whose_deletion_is_not_recorded_is_reported_at_once_by_some_scans_and_then_after_pauses_that_double() -> None:
    last, at = dict[str, Report](), []
    for second in (0, 1, 2, *range(30, 20_000, 30)):
        sent = news({}, {"a.py": "1"}, last, float(second), absent_too=True)
        last = reports({}, {"a.py": "1"}, last, sent, float(second))
        at += [second] if sent else []

    assert at[:8] == [0, 1, 2, 30, 60, 90, 120, 150]
    assert len(at) <= 20


def test_new_content_and_a_known_one_begin_the_pauses_anew() -> None:
    last = {"a.py": Report("1", 900.0, 480.0), "b.py": Report("1", 900.0, 480.0), "gone.py": Report("1", 900.0, 480.0)}

    assert reports({"a.py": "2", "b.py": "1"}, {"b.py": "1"}, last, ["a.py"], 100.0) == {"a.py": Report("2", 160.0, 60.0)}


@pytest.mark.parametrize(
    ("before", "listed", "now", "known", "is_reported", "expected"),
    [
        ({}, ["a.py"], [], ["a.py"], False, {"a.py": 0}),
        ({}, ["a.py"], [], ["a.py"], True, {"a.py": 1}),
        ({"a.py": 0}, [], [], ["a.py"], False, {"a.py": 0}),
        ({"a.py": 1}, [], [], ["a.py"], True, {"a.py": 2}),
        ({"a.py": 1}, [], ["a.py"], ["a.py"], True, {}),
        ({"a.py": 2}, [], [], [], True, {}),
        ({}, [], [], ["never-there.py"], True, {}),
        ({}, ["a.py"], ["a.py"], ["a.py"], True, {}),
    ],
)
def test_only_a_file_that_was_there_and_is_not_recorded_as_gone_has_disappeared(
    before: Mapping[str, int], listed: list[str], now: list[str], known: list[str], is_reported: bool, expected: Mapping[str, int]
) -> None:
    assert disappeared(before, listed, now, known, is_reported=is_reported) == expected


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


def test_a_folder_that_may_be_listed_but_not_entered_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "a.py").touch()
    stat = os.stat

    def denied(path: Any, **options: Any) -> os.stat_result:
        if path == f"{tmp_path}/team/.":
            raise PermissionError
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", denied)

    assert listing(tmp_path) == Listing({}, ("team",))


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


def test_a_module_of_an_archive_has_the_stamp_of_the_archive(tmp_path: Path) -> None:
    (tmp_path / "team.zip").touch()
    (tmp_path / "folder.zip").mkdir()
    (tmp_path / "folder.zip" / "a.py").touch()

    found = stamps(tmp_path, ["team.zip/app.py", "team.zip/", "folder.zip/a.py", "no.zip/a.py"])

    assert found == {
        "team.zip/app.py": stamp_of((tmp_path / "team.zip").stat()),
        "team.zip/": stamp_of((tmp_path / "team.zip").stat()),
        "folder.zip/a.py": stamp_of((tmp_path / "folder.zip" / "a.py").stat()),
    }
