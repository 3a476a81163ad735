"""Where a DAG file may write: a place of its own that is gone with its sandbox."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

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


def share_folder() -> str:
    """A temporary folder for the private folders of all sandboxes, where nothing can be mounted; empty if there can be none."""
    with suppress(OSError):
        tempfile.tempdir = folder = tempfile.mkdtemp(prefix="tidegate-dags-")
        os.chmod(folder, 0o711)  # noqa: S103 - a sandbox of root enters its own folder there, and lists none
        return folder
    return ""


def private_folder() -> str:
    """A temporary folder of the user of the sandbox; empty if there can be none."""
    with suppress(OSError):
        folder = tempfile.mkdtemp()
        if changes_user():
            os.chown(folder, NOBODY, NOBODY)
        return folder
    return ""


def remove(folder: str) -> None:
    """Delete a temporary folder, whatever a DAG file has put there. What cannot be deleted stays until the host cleans up."""
    if folder:
        with suppress(RecursionError):
            shutil.rmtree(folder, ignore_errors=True)
