"""The stamp of a file: a file that keeps its stamp has not changed."""

import os

Stamp = tuple[int, ...]
"""Device, inode, size, mtime and ctime."""


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a file with this status."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
