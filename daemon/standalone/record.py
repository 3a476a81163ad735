"""The record of a standalone in its data folder: its processes and addresses, for commands and for the start after a crash."""

import os
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

import anyio
import msgspec

from tidegate.daemon.postgres.address import has_password
from tidegate.daemon.spark import whole_file
from tidegate.daemon.spark.process import Identity, alive, identify
from tidegate.schemas.cluster import read_clusters
from tidegate.schemas.error import RequestError

Say = Callable[[str], None]
"""Shows a line to the user."""

FILE = "standalone.json"
HOMES = "standalones"
AGAIN_S = 5.0


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
    """`servers` are by the name of their folder. `settings` are for commands; empty until all servers are ready.

    `untold` are the names of settings that commands need, too, and that contain secrets.
    """

    process: Identity | None
    since: datetime
    settings: dict[str, str] = {}
    untold: tuple[str, ...] = ()
    web: str = ""
    servers: dict[str, ServerRecord] = {}

    @property
    def alive(self) -> bool:
        """Whether the standalone runs."""
        return self.process is not None and alive(self.process)


class Recorder:
    """Writes the record at each change. On a full disk the record stays as it was, until there is room or a later change."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._record = Record(process=identify(os.getpid()), since=now())
        self._is_written = True

    def change(self, **fields: Any) -> None:
        self._record = msgspec.structs.replace(self._record, **fields)
        self._write()

    async def keep_written(self) -> NoReturn:
        """Write again what could not be written."""
        while True:
            await anyio.sleep(AGAIN_S)
            if not self._is_written:
                self._write()

    def _write(self) -> None:
        self._is_written = False
        with suppress(OSError):
            whole_file.replace(self._home / FILE, msgspec.json.format(msgspec.json.encode(self._record)))
            self._is_written = True

    def enter(self, key: str, server: ServerRecord) -> None:
        self.change(servers={**self._record.servers, key: server})

    def change_server(self, key: str, **fields: Any) -> None:
        self.enter(key, msgspec.structs.replace(self._record.servers[key], **fields))

    def restarted(self, key: str) -> None:
        """The server of this folder died and starts again."""
        restarts = self._record.servers[key].restarts + 1
        self.change_server(key, state=ServerState.RESTARTING, since=now(), restarts=restarts)


def told(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings without secrets: tasks can read the record and the log."""
    return {name: value for name, value in settings.items() if name not in untold(settings)}


def untold(settings: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the settings that contain secrets."""
    return tuple(name for name, has_secret in _HAS_SECRET.items() if name in settings and has_secret(settings[name]))


def untold_line(name: str) -> str:
    """Why a setting is not shown, and what to do."""
    return f"TIDEGATE_{name.upper()} may contain a secret and is not shown: set it as it is set for the standalone"


def _has_token(address: str) -> bool:
    """Whether an address of Spark has parameters, of which one may be a token, or a user."""
    return ";" in address or "@" in address


def _has_tokens(clusters: str) -> bool:
    return any(
        _has_token(address) for cluster in read_clusters(clusters).values() for address in (cluster.master, cluster.remote)
    )


_HAS_SECRET: Mapping[str, Callable[[str], bool]] = {
    "postgres_dsn": has_password,
    "spark_master": _has_token,
    "spark_clusters": _has_tokens,
}


def remove(home: Path) -> None:
    """All processes of the record have ended."""
    (home / FILE).unlink(missing_ok=True)


def enlist(home: Path, cache: Path) -> None:
    """Let commands in other folders know of the standalone on this one. Nothing depends on it."""
    with suppress(OSError):
        (cache / HOMES).mkdir(parents=True, exist_ok=True)
        whole_file.replace(cache / HOMES / sha256(os.fsencode(home)).hexdigest(), os.fsencode(home))


def others(home: Path, cache: Path) -> list[Path]:
    """The other folders on which a standalone of this user runs."""
    found: list[Path] = []
    with suppress(OSError):
        found = [Path(os.fsdecode(file.read_bytes())) for file in (cache / HOMES).iterdir()]
    return sorted(each for each in found if each != home and _runs(each))


def _runs(home: Path) -> bool:
    with suppress(RequestError):
        known = read(home)
        return known is not None and known.alive
    return False


def no_standalone(home: Path, cache: Path) -> str:
    """What to do where no standalone runs: start one, or name the folder of another one."""
    known = ", ".join(map(shlex.quote, map(str, others(home, cache))))
    elsewhere = f"; others run on {known}, which --data names" if known else ""
    return f"no standalone runs on {home}; `tidegate standalone up -d` starts one{elsewhere}"


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
