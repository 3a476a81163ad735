"""One user per directory, until he releases it or ends, however that comes about."""

import fcntl
import os
from pathlib import Path

from tidegate.daemon.standalone.process import ServerError


class DirectoryLock:
    """Held by this process alone: children do not inherit it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor: int | None = None

    def take(self) -> None:
        """Raises ServerError if somebody else has it. The directory is made where there is none."""
        self._directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise ServerError(f"{self._directory} is in use: stop what runs there, or take another directory") from error
        self._descriptor = descriptor

    def release(self) -> None:
        """Harmless when it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
