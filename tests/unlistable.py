"""A folder that no user can list, root neither: its path is too long."""

import os
from pathlib import Path

NAME = "d" * 200
LEVELS = 21
"""Of `NAME`; with the slashes more than the 4,096 bytes of a path."""

ROOM = 100
"""The bytes that are left in the longest path of a folder that can be listed: the names of its files may need some."""


def unlistable(root: Path) -> str:
    """Make it below `root`; returns its path relative to that, whose first name is `NAME`."""
    left = 4096 - len(f"{root}/{NAME}/") - ROOM
    second = "s" * ((left - 1) % len(f"{NAME}/") or len(f"{NAME}/"))
    names = [NAME, second, *[NAME] * LEVELS]
    opened = [os.open(root, os.O_RDONLY)]
    for name in names:
        os.mkdir(name, dir_fd=opened[-1])
        opened.append(os.open(name, os.O_RDONLY, dir_fd=opened[-1]))
    for descriptor in opened:
        os.close(descriptor)
    listed = 2 + (left - len(f"{second}/")) // len(f"{NAME}/")
    return "/".join(names[: listed + 1])
