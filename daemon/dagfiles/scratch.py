"""Where a DAG file may write: a place of its own that is gone with its sandbox."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory

from tidegate.daemon.dagfiles import mounts
from tidegate.daemon.dagfiles.confine import NOBODY, changes_user

PLACES = ("/tmp", "/dev/shm")  # noqa: S108 - each sandbox gets its own
INODES = 10_000

View = Mapping[str, Sequence[str]]
"""By folder that a sandbox does not see the folders below it that it does see."""


def private_places(paths: Iterable[str]) -> View:
    """The places, with the folders among these paths that are below them."""
    real = sorted({name for path in paths if os.path.isdir(path) for name in (path, os.path.realpath(path))})
    return {place: [path for path in real if path.startswith(f"{place}/")] for place in PLACES if os.path.isdir(place)}


def enter_view(closed: View, places: View, size_mb: int) -> tuple[str, ...]:
    """Mount what only this sandbox sees; returns where it may write, nothing without the permission for mounts.

    A folder that cannot be covered remains as it is: closed, or refused by Landlock.
    """
    written: list[str] = []
    with suppress(OSError):
        mounts.enter_namespace()
        for place, inside in places.items():
            with suppress(OSError):
                mounts.replace(place, inside, f"mode=1777,size={size_mb}m,nr_inodes={INODES}".encode())
                written.append(place)
        for folder, inside in closed.items():
            with suppress(OSError):
                mounts.replace(folder, inside)
    return tuple(written)


def permits_mounts() -> bool:
    """Whether a sandbox may mount something, as a child of this process tries."""
    if (pid := os.fork()) == 0:
        os._exit(not enter_view({}, dict.fromkeys(PLACES, ()), size_mb=1))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@contextmanager
def private_folder() -> Iterator[str]:
    """A temporary folder of the user of the sandbox, where nothing can be mounted; empty if there can be none."""
    with suppress(OSError), TemporaryDirectory(prefix="tidegate-dag-", ignore_cleanup_errors=True) as folder:
        if changes_user():
            os.chown(folder, NOBODY, NOBODY)
        yield folder
        return
    yield ""
