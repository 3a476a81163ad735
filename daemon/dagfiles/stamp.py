"""The stamp of a file: a file that keeps its stamp has not changed, unless the stamp is young."""

import os

Stamp = tuple[int, ...]
"""Device, inode, size, mtime and ctime."""

TICK_NS = 1_000_000_000
"""The times of some file systems are in whole seconds. Two changes within a tick may leave the same stamp."""


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a file with this status."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def is_young(stamp: Stamp, now_ns: int) -> bool:
    """Whether the file may still change in the tick of its last change."""
    return stamp[-1] > now_ns - TICK_NS
