"""An exclusive lock on a directory, released at the latest by the end of the process."""

import fcntl
import os
from pathlib import Path

from tidegate.daemon.standalone.process import ServerError


class DirectoryLock:
    """Children do not inherit the lock."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Create the directory if necessary and lock it. Raises ServerError when another process holds the lock."""
        self._directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise ServerError(f"{self._directory} is in use: stop its user, or choose another directory") from error
        self._descriptor = descriptor

    def release(self) -> None:
        """Does nothing without a lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
