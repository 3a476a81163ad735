"""A small disk in memory, that a test may fill."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

MIB = 1 << 20


class Disk:
    """What is mounted at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self, leave_mib: int = 0) -> None:
        """Until so much is free. A server may take the last of it meanwhile: no buffer is left that the file could not close."""
        with self._filler.open("ab", buffering=0) as filler, suppress(OSError):
            while (free := self.free()) > leave_mib * MIB:
                filler.write(bytes(min(free - leave_mib * MIB, MIB)))

    def free(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def make_room(self) -> None:
        self._filler.unlink()


@contextmanager
def mounted(path: Path, size_mib: int) -> Iterator[Disk]:
    """Skips the test, and says why, where we may not mount anything."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m,mode=755", "tmpfs", str(path)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small disk cannot be mounted here: {getattr(error, 'stderr', '') or error}")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)  # noqa: S607 - as above
