"""Files in directories that foreign code can write to: no link is followed, nothing blocks, only regular files are read."""

import errno
import os
import stat
from pathlib import Path

from tidegate.schemas.error import TidegateError

_DAMAGE = {
    errno.EACCES: "cannot be opened: permission denied",
    errno.EPERM: "cannot be opened: permission denied",
    errno.EISDIR: "is a directory",
    errno.ELOOP: "is a symbolic link",
    errno.ENOTDIR: "is not below a directory",
    errno.ENXIO: "is a FIFO or a socket",
}


class DamagedError(TidegateError):
    """A file is not as Tidegate wrote it. The message names the file and the damage."""

    def __init__(self, path: Path, damage: str) -> None:
        super().__init__(f"{path} {damage}")


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of the regular file; FileNotFoundError without one. Raises DamagedError for any other kind of file."""
    descriptor = _open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DamagedError(path, "is not a regular file")
    return descriptor


def open_directory(path: Path) -> int:
    """A descriptor of the directory. Raises DamagedError for any other kind of file."""
    return _open(path, os.O_RDONLY | os.O_DIRECTORY)


def read_regular(path: Path, max_bytes: int) -> bytes:
    """The content of the regular file. Raises FileNotFoundError; DamagedError also for more than `max_bytes`."""
    with os.fdopen(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        content = b"" if size > max_bytes else file.read(max_bytes + 1)
    if max(size, len(content)) > max_bytes:
        raise DamagedError(path, f"has more than {max_bytes} bytes")
    return content


def _open(path: Path, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in _DAMAGE:
            raise
        raise DamagedError(path, _DAMAGE[error.errno]) from error
