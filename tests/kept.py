"""Files and folders that are kept in the cache, which several checkouts may share."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from tidegate.daemon.standalone.process import ServerError


def require_writable(cache: Path) -> None:
    """Raises ServerError if no file can be kept there."""
    try:
        tempfile.TemporaryFile(dir=cache).close()
    except OSError as error:
        raise ServerError(
            f"{cache} cannot hold the files of tests: {error.strerror}; set TIDEGATE_CACHE to another directory"
        ) from error


@contextmanager
def keeping(kept: Path) -> Iterator[Path]:
    """A name beside it, of this caller alone; what the block makes there becomes what is kept.

    Of a folder the first one stays; a file takes the place of an earlier one.
    """
    unfinished = kept.with_name(f"{kept.name}.{uuid4().hex}")
    try:
        yield unfinished
        try:
            unfinished.rename(kept)
        except OSError:
            if not kept.is_dir():
                raise
    finally:
        if unfinished.is_dir():
            shutil.rmtree(unfinished)
        unfinished.unlink(missing_ok=True)
