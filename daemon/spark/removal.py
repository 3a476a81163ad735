"""Removal of directories that foreign code wrote: of any depth and with any permissions."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4


def remove(tree: Path, trash: str) -> None:
    """Delete a file or directory; what cannot be deleted stays. `trash` begins the names of directories moved beside `tree`.

    Each directory is moved beside `tree` before it is read, so that neither recursion nor the length of paths limits the depth.
    """
    directories = [tree]
    while directories:
        directory = directories.pop()
        with suppress(OSError):
            directories.extend(_empty(directory, tree.parent, trash))
            directory.rmdir()
    with suppress(OSError):
        tree.unlink()


def _empty(directory: Path, beside: Path, trash: str) -> Iterator[Path]:
    """Delete the files of a directory; yields its directories after moving them."""
    if directory.is_symlink():
        return
    directory.chmod(0o700)
    with os.scandir(directory) as entries:
        for entry in list(entries):
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    os.chmod(entry.path, 0o700)
                    yield Path(entry.path).rename(beside / f"{trash}{uuid4()}")
                else:
                    os.unlink(entry.path)
