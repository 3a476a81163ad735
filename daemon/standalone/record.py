"""The record of a standalone in its data folder: its processes and addresses, for commands and for the start after a crash."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from tidegate.daemon.postgres_address import has_password
from tidegate.daemon.spark import whole_file
from tidegate.daemon.spark.process import Identity, alive, identify
from tidegate.schemas.error import RequestError

Say = Callable[[str], None]
"""Shows a line to the user."""

FILE = "standalone.json"
UNTOLD = "TIDEGATE_POSTGRES_DSN has a password and is not shown: set it as it is set for the standalone"


class ServerState(StrEnum):
    """`restarting`: the server died, and the keeper starts it again."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"


class ServerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A server and its newest process. `restarts` counts how often it died and was started again."""

    name: str
    log: str
    state: ServerState = ServerState.STARTING
    since: datetime
    process: Identity | None = None
    port: int = 0
    restarts: int = 0


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """`servers` are by the name of their folder. `settings` are for commands; empty until all servers are ready."""

    process: Identity | None
    since: datetime
    settings: dict[str, str] = {}
    web: str = ""
    servers: dict[str, ServerRecord] = {}

    @property
    def alive(self) -> bool:
        """Whether the standalone runs."""
        return self.process is not None and alive(self.process)


class Recorder:
    """Writes the record at each change. On a full disk the record stays as it was until a later change."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._record = Record(process=identify(os.getpid()), since=now())

    def change(self, **fields: Any) -> None:
        self._record = msgspec.structs.replace(self._record, **fields)
        with suppress(OSError):
            whole_file.replace(self._home / FILE, msgspec.json.format(msgspec.json.encode(self._record)))

    def enter(self, key: str, server: ServerRecord) -> None:
        self.change(servers={**self._record.servers, key: server})

    def change_server(self, key: str, **fields: Any) -> None:
        self.enter(key, msgspec.structs.replace(self._record.servers[key], **fields))

    def restarted(self, key: str) -> None:
        """The server of this folder died and starts again."""
        restarts = self._record.servers[key].restarts + 1
        self.change_server(key, state=ServerState.RESTARTING, since=now(), restarts=restarts)


def told(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings without an address of Postgres that has a password: tasks can read the record and the log."""
    return {name: value for name, value in settings.items() if name != "postgres_dsn" or not has_password(value)}


def remove(home: Path) -> None:
    """All processes of the record have ended."""
    (home / FILE).unlink(missing_ok=True)


def read(home: Path) -> Record | None:
    """The record of the newest standalone on this folder, if it did not end in good order. Raises RequestError."""
    file = home / FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=Record)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise RequestError(f"{file} cannot be read: {error}; if no standalone runs, delete it") from error


def now() -> datetime:
    return datetime.now(UTC)
