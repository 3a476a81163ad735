"""Files that appear with their whole content or not at all, also across a power failure."""

import os
from pathlib import Path
from uuid import uuid4

from tidegate.daemon.spark.regular_file import open_directory


def create(path: Path, content: bytes) -> bool:
    """Create the file; False when it exists. True for exactly one caller, ever."""
    draft = _write_draft(path, content)
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        # NFS repeats a request whose answer is lost, and then says that the file it has created exists.
        if not os.path.samestat(path.lstat(), draft.lstat()):
            return False
    finally:
        draft.unlink(missing_ok=True)  # as above
    sync(path.parent)
    return True


def replace(path: Path, content: bytes) -> None:
    """Store the content in place of an earlier one."""
    _write_draft(path, content).replace(path)
    sync(path.parent)


def sync(directory: Path) -> None:
    """Sync the entries of a directory to disk."""
    descriptor = open_directory(directory)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_draft(path: Path, content: bytes) -> Path:
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            os.fchmod(file.fileno(), 0o600)  # whatever umask a task has set
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:  # on a full disk, the draft of each try would take what is left
        draft.unlink(missing_ok=True)
        raise
    return draft
