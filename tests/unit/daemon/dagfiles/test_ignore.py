"""Which files of the DAG folder are ignored. `git check-ignore` gives the same answers for the lines of `.tidegateignore`."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.daemon.dagfiles.ignore import ALWAYS, IGNORE_FILE, MAX_BYTES, Ignore, ignore_of
from tidegate.daemon.dagfiles.scan import listing
from tidegate.daemon.dagfiles.source import RefusedError, read

CASES = [
    ("", "daily.py", False),
    ("", "team/daily.py", False),
    ("", ".daily.py", True),
    ("", ".git/hooks/daily.py", True),
    ("", "team/__pycache__/daily.py", True),
    ("", "lost+found/daily.py", True),
    ("", "team/lost+found/daily.py", False),
    ("daily.py", "daily.py", True),
    ("daily.py", "team/daily.py", True),
    ("daily.py", "team/daily.py/other.py", True),
    ("daily", "daily.py", False),
    ("Daily.py", "daily.py", False),
    ("test_*", "test_daily.py", True),
    ("test_*", "team/test_it/daily.py", True),
    ("test_*", "team/daily.py", False),
    ("drafts/", "drafts/daily.py", True),
    ("drafts/", "team/drafts/daily.py", True),
    ("drafts.py/", "drafts.py", False),
    ("team/drafts", "team/drafts/daily.py", True),
    ("team/drafts", "other/team/drafts/daily.py", False),
    ("team/drafts/", "other/team/drafts/daily.py", False),
    ("/drafts", "drafts/daily.py", True),
    ("/drafts", "team/drafts/daily.py", False),
    ("/drafts/", "drafts/daily.py", True),
    ("/*.py", "daily.py", True),
    ("/*.py", "team/daily.py", False),
    ("team/*.py", "team/daily.py", True),
    ("team/*.py", "team/deep/daily.py", False),
    ("team/*/daily.py", "team/a/b/daily.py", False),
    ("team/**", "team/a/b/daily.py", True),
    ("team/**/daily.py", "team/daily.py", True),
    ("team/**/daily.py", "team/a/b/daily.py", True),
    ("**/drafts", "team/a/drafts/daily.py", True),
    ("**/drafts/*.py", "drafts/daily.py", True),
    ("a?c.py", "abc.py", True),
    ("team?daily.py", "team/daily.py", False),
    ("[ab].py", "a.py", True),
    ("[!ab].py", "c.py", True),
    ("[!ab].py", "a.py", False),
    ("*.py\n!daily.py", "daily.py", False),
    ("*.py\n!daily.py", "weekly.py", True),
    ("!daily.py\n*.py", "daily.py", True),
    ("drafts/\n!drafts/daily.py", "drafts/daily.py", True),
    ("drafts/*\n!drafts/daily.py", "drafts/daily.py", False),
    ("/*\n!/team", "team/daily.py", False),
    ("/*\n!/team", "other/daily.py", True),
    ("!.hidden", ".hidden/daily.py", False),
    ("# daily.py", "daily.py", False),
    ("\\#daily.py", "#daily.py", True),
    ("\\!daily.py", "!daily.py", True),
    ("daily.py  ", "daily.py", True),
    ("  daily.py", "daily.py", False),
    ("daily.py\\ ", "daily.py", False),
    ("\n\ndaily.py\n", "daily.py", True),
    ("!", "daily.py", False),
    ("//", "daily.py", False),
]


@pytest.mark.parametrize(("text", "path", "expected"), CASES)
def test_a_path_is_ignored_by_the_rules_of_gitignore(text: str, path: str, expected: bool) -> None:
    assert Ignore(text).file(path) is expected


def test_git_has_the_same_rules(tmp_path: Path) -> None:
    answers = [(text, path, git_ignores(tmp_path / str(number), text, path)) for number, (text, path, _) in enumerate(CASES)]

    assert answers == CASES


@pytest.mark.parametrize(("folder", "expected"), [("drafts", True), ("team/drafts", True), ("team", False), (".git", True)])
def test_a_folder_that_is_ignored_need_not_be_looked_into(folder: str, expected: bool) -> None:
    assert Ignore("drafts/").folder(folder) is expected


def test_a_changed_ignore_file_is_read_again(tmp_path: Path) -> None:
    before = ignore_of(tmp_path).file("drafts/a.py")
    (tmp_path / IGNORE_FILE).write_text("drafts/\n")

    assert (before, ignore_of(tmp_path).file("drafts/a.py")) == (False, True)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def large(path: Path) -> None:
    path.write_bytes(b"#" * (MAX_BYTES + 1))


def loop(path: Path) -> None:
    path.symlink_to(path)


def dangling(path: Path) -> None:
    path.symlink_to(path.parent / "missing")


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (pipe, "it is not a regular file"),
        (folder, "Is a directory"),
        (large, "it has more than 1048576 bytes"),
        (loop, "Too many levels of symbolic links"),
        (dangling, "it is a link to a missing file"),
    ],
)
def test_no_file_is_read_while_it_is_not_known_which_are_ignored(spoil: Callable[[Path], None], why: str, tmp_path: Path) -> None:
    (tmp_path / "daily.py").touch()
    spoil(tmp_path / IGNORE_FILE)

    with pytest.raises(RefusedError) as refused:
        read(tmp_path, "daily.py")

    assert str(refused.value) == f".tidegateignore cannot be read: {why}; mend it, or delete it"
    assert (read(tmp_path, "missing.py"), read(tmp_path, ".hidden.py")) == (None, None)
    assert list(listing(tmp_path).files) == ["daily.py"]


def git_ignores(folder: Path, text: str, path: str) -> bool:
    folder.mkdir()
    git = shutil.which("git") or "git"
    subprocess.run([git, "init", "--quiet", folder], check=True)
    (folder / ".gitignore").write_text("\n".join((*ALWAYS, text)))
    return subprocess.run([git, "-C", folder, "check-ignore", "--quiet", "--no-index", path], check=False).returncode == 0
