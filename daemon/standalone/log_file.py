"""The logs of a standalone, as one view: the lines of each file, with the name of the server."""

import os
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from tidegate.daemon.spark.process import TAIL_BYTES
from tidegate.schemas.error import NotFoundError

OWN = "standalone"
SERVER_LOG = "server.log"
NAMES = ("daemon", "kafka", "postgres", "producer", "spark", OWN, "web")
"""The logs that a standalone may write."""
POLL_S = 0.2

Line = tuple[str, str]
"""The name of a server, and a line of its log."""


class LogFile:
    """Reads the lines that a log gets. A file that does not exist yet, or was emptied, is read from its beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._begun = b""

    def last(self, count: int) -> list[str]:
        """The last whole lines, of the last 64 KiB; `new` continues after them."""
        size = self._path.stat().st_size if self._path.exists() else 0
        begin = self._position = max(0, size - TAIL_BYTES)
        lines = self.new()[1 if begin else 0 :]
        return lines[-count:] if count else []

    def new(self) -> list[str]:
        """The whole lines since the last call."""
        try:
            content = self._read()
        except FileNotFoundError:
            return []
        *whole, self._begun = (self._begun + content).split(b"\n")
        return [line.decode(errors="backslashreplace") for line in whole]

    def _read(self) -> bytes:
        with self._path.open("rb") as file:
            if file.seek(0, os.SEEK_END) < self._position:
                self._position, self._begun = 0, b""
            file.seek(self._position)
            content = file.read()
        self._position += len(content)
        return content


def own_log(home: Path) -> Path:
    """The output of a standalone in the background."""
    return home / f"{OWN}.log"


def logs(home: Path, chosen: Collection[str] = (), to_come: Collection[str] = ()) -> dict[str, LogFile]:
    """The logs below the data folder by the names of their servers, or these of them.

    Raises NotFoundError without any, or for one that is neither there nor `to_come`.
    """
    paths = _paths(home)
    if not paths:
        raise NotFoundError(f"there are no logs in {home}: no standalone has run there")
    if unknown := sorted(set(chosen) - paths.keys() - set(to_come)):
        raise NotFoundError(f"there is no log of {unknown[0]}; there are those of {', '.join(paths)}")
    return {name: LogFile(path) for name, path in paths.items() if name in chosen or not chosen}


def _paths(home: Path) -> dict[str, Path]:
    paths = {path.parent.name: path for path in sorted(home.glob(f"*/{SERVER_LOG}"))}
    return paths | {path.stem: path for path in (own_log(home), home / "producer.log") if path.exists()}


def last_lines(files: Mapping[str, LogFile], count: int) -> Iterator[Line]:
    for name, file in files.items():
        yield from ((name, line) for line in file.last(count))


def new_lines(home: Path, chosen: Collection[str], known: Mapping[str, LogFile]) -> Iterator[Line]:
    """Without end: the lines that the known logs get, and those of servers that start later, or of these of them."""
    files = dict(known)
    while True:
        for name, path in _paths(home).items():
            if name not in files and (name in chosen or not chosen):
                files[name] = LogFile(path)
        for name, file in files.items():
            yield from ((name, line) for line in file.new())
        time.sleep(POLL_S)
