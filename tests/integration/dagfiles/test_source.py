"""Reading DAG files below the DAG folder, and nothing else."""

import errno
import hashlib
import os
import stat
from pathlib import Path

import pytest

from tidegate.daemon.dagfiles.message import MAX_BYTES, NOT_READ
from tidegate.daemon.dagfiles.source import RefusedError, Source, _why_not_opened, content_digest, differing, is_blank, read


def test_a_file_is_read_with_its_digest(root: Path) -> None:
    (root / "team").mkdir()
    (root / "team" / "a.py").write_text("x = 1\n")

    assert read(root, "team/a.py") == Source("x = 1\n", hashlib.sha256(b"x = 1\n").hexdigest())


@pytest.mark.parametrize("path", ["a.py", "team/a.py", "file.py/a.py", ".hidden.py", "skipped.py"])
def test_a_file_that_is_not_there_or_ignored_is_none(root: Path, path: str) -> None:
    for name in ("file.py", ".hidden.py", "skipped.py"):
        (root / name).touch()
    (root / ".tidegateignore").write_text("skipped.py\n")

    assert read(root, path) is None


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../outside.py", "the path must be relative to the DAG folder and stay below it"),
        ("team/../../outside.py", "the path must be relative to the DAG folder and stay below it"),
        ("/etc/outside.py", "the path must be relative to the DAG folder and stay below it"),
        ("./a.py", "the path must be relative to the DAG folder and stay below it"),
        ("team//a.py", "the path must be relative to the DAG folder and stay below it"),
        ("a\0.py", "the path does not name a Python file (*.py)"),
        ("a.txt", "the path does not name a Python file (*.py)"),
        ("", "the path does not name a Python file (*.py)"),
        ("link.py", "link.py is a symbolic link; put the file itself into the DAG folder"),
        ("linked/outside.py", "linked is a symbolic link; put the file itself into the DAG folder"),
        ("dangling.py", "dangling.py is a symbolic link; put the file itself into the DAG folder"),
        ("folder.py", "it is not a regular file"),
        ("pipe.py", "it is not a regular file"),
        ("socket.py", "it is not a regular file"),
        (f"{'x' * 300}.py", "cannot be opened: File name too long"),
        ("\ud800.py", "cannot be opened: 'utf-8' codec can't encode"),
    ],
)
def test_what_is_not_a_file_of_the_folder_is_refused_unread(root: Path, path: str, reason: str) -> None:
    (root.parent / "outside.py").write_text("SECRET")
    (root / "link.py").symlink_to(root.parent / "outside.py")
    (root / "dangling.py").symlink_to(root / "nowhere.py")
    (root / "linked").symlink_to(root.parent)
    (root / "folder.py").mkdir()
    os.mkfifo(root / "pipe.py")
    os.mknod(root / "socket.py", stat.S_IFSOCK | 0o600)

    with pytest.raises(RefusedError) as caught:
        read(root, path)

    assert reason in str(caught.value)
    assert caught.value.digest == NOT_READ


def test_a_file_whose_read_fails_has_no_digest() -> None:
    assert content_digest(Path("/proc/self"), "mem") == NOT_READ  # a regular file that gives EIO


def test_a_file_may_have_one_mebibyte_and_not_a_byte_more(root: Path) -> None:
    (root / "full.py").write_bytes(b"#" * MAX_BYTES)
    (root / "large.py").write_bytes(b"#" * (MAX_BYTES + 1))

    assert read(root, "full.py") is not None
    with pytest.raises(RefusedError, match="it has 1048577 bytes; at most 1048576 are read"):
        read(root, "large.py")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"name = '\xe9'", "it is not UTF-8: invalid continuation byte at byte 8"),
        (b"a = 1\0", "it contains a NUL character"),
    ],
)
def test_content_that_is_no_text_is_refused_with_its_digest(root: Path, content: bytes, reason: str) -> None:
    (root / "a.py").write_bytes(content)

    with pytest.raises(RefusedError) as caught:
        read(root, "a.py")

    assert (str(caught.value), caught.value.digest) == (reason, hashlib.sha256(content).hexdigest())


def test_a_byte_order_mark_is_not_part_of_the_text(root: Path) -> None:
    (root / "a.py").write_bytes(b"\xef\xbb\xbfx = 1\n")

    source = read(root, "a.py")

    assert source is not None
    assert source.text == "x = 1\n"


def test_a_missing_dag_folder_is_not_a_missing_file(root: Path) -> None:
    with pytest.raises(RefusedError, match="the DAG folder cannot be opened: No such file or directory"):
        read(root / "nowhere", "a.py")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from tidegate import Dag", False),
        ("def broken(:", False),
        (" \n", True),
        ("", True),
    ],
)
def test_a_blank_file_needs_no_sandbox(text: str, expected: bool) -> None:
    assert is_blank(Source(text, "")) is expected


def test_of_files_with_imports_those_are_named_of_which_one_changed(root: Path) -> None:
    (root / "same.py").write_text("x = 1\n")
    (root / "changed.py").write_text("x = 1\n")
    before = {name: content_digest(root, name) for name in ("same.py", "changed.py", "missing.py")}
    (root / "changed.py").write_text("x = 2\n")

    files = {"one.py": ["same.py", "missing.py"], "two.py": ["same.py", "changed.py"], "three.py": []}

    assert differing(root, {path: {name: before[name] for name in names} for path, names in files.items()}) == {"two.py"}


def test_a_file_without_the_permission_says_who_needs_it() -> None:
    denied = PermissionError(errno.EACCES, "Permission denied", "daily.py")

    said = "daily.py cannot be opened: Permission denied; let the user of the daemon read it"
    assert _why_not_opened("daily.py", denied) == said
