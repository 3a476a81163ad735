"""The ignored files of a DAG folder: hidden ones, and those of `.tidegateignore`, by the rules of `.gitignore`.

There is one such file, at the top of the folder. A `!` line also takes back that hidden files are ignored.
"""

import os
import stat
from functools import lru_cache
from pathlib import Path

from pathspec import GitIgnoreSpec

IGNORE_FILE = ".tidegateignore"
MAX_BYTES = 1 << 20
ALWAYS = (".*", "__pycache__/", "/lost+found/")
"""The last is a folder that only root can read, at the top of a mounted file system."""


class Ignore:
    """Says which paths are ignored; they are relative to the DAG folder.

    `problem` is why that of the folder is not known: then no file is read, because it may be one that is to be ignored.
    """

    def __init__(self, text: str = "", problem: str = "") -> None:
        self.problem = problem
        lines = (*ALWAYS, *filter(_is_valid, text.splitlines()))
        self._spec: GitIgnoreSpec = GitIgnoreSpec.from_lines(lines)

    def file(self, path: str) -> bool:
        """Whether a file is ignored, or a folder that it is in."""
        parts = path.split("/")
        return any(self.folder("/".join(parts[:count])) for count in range(1, len(parts))) or self.file_itself(path)

    def file_itself(self, path: str) -> bool:
        """Whether a file is ignored, given that its folders are not."""
        return self._spec.match_file(path)

    def folder(self, path: str) -> bool:
        """Whether a folder is ignored, given that its parents are not."""
        return self._spec.match_file(f"{path}/")


def ignore_of(root: Path) -> Ignore:
    """The ignored files of a DAG folder."""
    try:
        return _compiled(_read(root / IGNORE_FILE).decode(errors="replace"))
    except (FileNotFoundError, NotADirectoryError):
        return _refused("it is a link to a missing file") if os.path.islink(root / IGNORE_FILE) else _compiled("")
    except OSError as error:
        return _refused(error.strerror)


def _refused(reason: str | None) -> Ignore:
    return Ignore(problem=f"{IGNORE_FILE} cannot be read: {reason}; mend it, or delete it")


def _read(path: Path) -> bytes:
    """The content; not that of a pipe, for which a reader waits. Raises OSError."""
    with open(path, "rb", opener=_open_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(None, "it is not a regular file")
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(None, f"it has more than {MAX_BYTES} bytes")
    return content


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


@lru_cache(maxsize=4)
def _compiled(text: str) -> Ignore:
    return Ignore(text)


def _is_valid(line: str) -> bool:
    """Git passes over a line that is no pattern."""
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
