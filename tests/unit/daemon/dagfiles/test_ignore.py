"""Which files of the DAG folder are ignored."""

from pathlib import Path

import pytest

from tidegate.daemon.dagfiles.scan import ALWAYS, IGNORE_FILE, folder_ignored, ignored, patterns


@pytest.mark.parametrize(
    ("lines", "path", "expected"),
    [
        ("", "daily.py", False),
        ("", "team/daily.py", False),
        ("", ".daily.py", True),
        ("", ".git/hooks/daily.py", True),
        ("", "team/__pycache__/daily.py", True),
        ("", "__pycache__", False),
        ("daily.py", "daily.py", True),
        ("daily.py", "team/daily.py", True),
        ("daily.py", "team/daily.py/other.py", True),
        ("daily", "daily.py", False),
        ("test_*", "test_daily.py", True),
        ("test_*", "team/test_it/daily.py", True),
        ("test_*", "team/daily.py", False),
        ("drafts/", "drafts/daily.py", True),
        ("drafts/", "team/drafts/daily.py", True),
        ("drafts.py/", "drafts.py", False),
        ("team/drafts", "team/drafts/daily.py", True),
        ("team/drafts", "other/team/drafts/daily.py", False),
        ("/drafts", "drafts/daily.py", True),
        ("/drafts", "team/drafts/daily.py", False),
        ("team/*.py", "team/daily.py", True),
        ("*.py !daily.py", "daily.py", False),
        ("*.py !daily.py", "weekly.py", True),
        ("!daily.py *.py", "daily.py", True),
        ("drafts/ !daily.py", "drafts/daily.py", True),
        ("!.hidden", ".hidden/daily.py", False),
        ("Daily.py", "daily.py", False),
    ],
)
def test_a_path_is_ignored_exactly_when_the_last_line_that_matches_says_so(lines: str, path: str, expected: bool) -> None:
    assert ignored(path, (*ALWAYS, *lines.split())) is expected


@pytest.mark.parametrize(("folder", "expected"), [("drafts", True), ("team/drafts", True), ("team", False), (".git", True)])
def test_a_folder_that_is_ignored_need_not_be_looked_into(folder: str, expected: bool) -> None:
    assert folder_ignored(folder, (*ALWAYS, "drafts/")) is expected


def test_comments_and_empty_lines_are_no_patterns(tmp_path: Path) -> None:
    (tmp_path / IGNORE_FILE).write_text("# drafts\n\n  drafts/  \n")

    assert patterns(tmp_path) == (*ALWAYS, "drafts/")


def test_without_an_ignore_file_only_hidden_files_are_ignored(tmp_path: Path) -> None:
    assert patterns(tmp_path) == ALWAYS
