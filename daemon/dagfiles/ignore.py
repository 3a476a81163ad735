"""Files that are not DAG files: `.tidegateignore`, similar to `.gitignore`.

A pattern without a slash matches the name of a file or folder at any depth; one with a slash matches the path from the DAG
folder on; one that ends in a slash matches folders only. A folder that is ignored hides all it contains. `!` takes back what
an earlier line ignored; `#` begins a comment. Hidden files and folders are ignored unless a line takes that back.
"""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

IGNORE_FILE = ".tidegateignore"
ALWAYS = (".*", "__pycache__/")


def patterns(root: Path) -> tuple[str, ...]:
    """The patterns of a DAG folder, with the defaults."""
    try:
        text = (root / IGNORE_FILE).read_text(errors="replace")
    except OSError:
        return ALWAYS
    lines = (line.strip() for line in text.splitlines())
    return (*ALWAYS, *(line for line in lines if line and not line.startswith("#")))


def ignored(path: str, patterns: Sequence[str]) -> bool:
    """Whether the file at `path`, or a folder it is in, is ignored."""
    parts = path.split("/")
    return any(_ignores("/".join(parts[:count]), patterns, is_folder=count < len(parts)) for count in range(1, len(parts) + 1))


def folder_ignored(path: str, patterns: Sequence[str]) -> bool:
    """Whether a folder is ignored, given that its parents are not."""
    return _ignores(path, patterns, is_folder=True)


def _ignores(path: str, patterns: Sequence[str], *, is_folder: bool) -> bool:
    verdict = False
    for line in patterns:
        if _matches(path, line.removeprefix("!"), is_folder=is_folder):
            verdict = not line.startswith("!")
    return verdict


def _matches(path: str, pattern: str, *, is_folder: bool) -> bool:
    if pattern.endswith("/"):
        return is_folder and _matches(path, pattern.rstrip("/"), is_folder=True)
    if "/" in pattern:
        return fnmatchcase(path, pattern.removeprefix("/"))
    return fnmatchcase(path.rpartition("/")[2], pattern)
