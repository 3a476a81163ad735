"""The ignored files of a DAG folder: hidden ones, and those of `.tidegateignore`, by the rules of `.gitignore`.

There is one such file, at the top of the folder. A `!` line also takes back that hidden files are ignored.
"""

from functools import lru_cache
from pathlib import Path

from pathspec import GitIgnoreSpec

IGNORE_FILE = ".tidegateignore"
ALWAYS = (".*", "__pycache__/")


class Ignore:
    """Says which paths are ignored; they are relative to the DAG folder."""

    def __init__(self, text: str = "") -> None:
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
        return _compiled((root / IGNORE_FILE).read_text(errors="replace"))
    except OSError:
        return _compiled("")


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
