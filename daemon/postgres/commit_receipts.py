"""Commit receipts: which commits Postgres has acknowledged to this daemon, in memory and in a file that outlives the process.

A server without one of these commits has lost it: a promoted asynchronous standby, a restored copy, a disk that drops writes.
"""

import fcntl
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from uuid import UUID

import msgspec

from tidegate.daemon.postgres.deferred_log import log
from tidegate.schemas.queries.losses import Mark

FOLDER = "receipts"


class Receipt(msgspec.Struct, frozen=True):
    """An acknowledged commit marker. `upto` is the last number given out before the acknowledgement; `at` is server time."""

    backend: int
    number: int
    upto: int
    at: datetime


class StoredReceipts(msgspec.Struct, frozen=True):
    """The content of a receipts file."""

    database: str
    receipts: tuple[Receipt, ...]


class CommitReceipts:
    """The newest receipts of a daemon. Commits are lost from the end, so a marker proves every commit before its number.

    `spent` are the numbers of markers that a later one of the same connection replaces. A later one of another connection does
    not: a new connection may be checked while the receipts in hand are proved only by the newest marker of any connection.
    Memory grows by one number for each connection ever opened.
    """

    def __init__(self, daemon: UUID, root: Path) -> None:
        self.daemon = daemon
        self.path = root / FOLDER / str(daemon)
        self.database = ""
        self._number = 0
        self.spent: set[int] = set()
        self._newest: dict[int, Receipt] = {}
        self._last: dict[int, int] = {}
        self._length = 0
        self._failed = False
        self._descriptor = _create_locked(self.path)

    @property
    def newest(self) -> tuple[Receipt, ...]:
        return tuple(self._newest.values())

    def next_number(self) -> int:
        """The number of the marker of a transaction that begins."""
        self._number += 1
        return self._number

    def record(self, backend: int, number: int, at: datetime) -> None:
        """Postgres acknowledged the commit with this marker."""
        if backend in self._last:
            self.spent.add(self._last[backend])
        self._last[backend] = number
        self._newest = {key: old for key, old in self._newest.items() if old.upto >= number}
        self._newest[backend] = Receipt(backend, number, self._number, at)
        self._store()

    def clear(self) -> None:
        """Drop all receipts, after their loss was recorded."""
        self._newest = {}
        self._store()

    def close(self) -> None:
        """Release the file, which stays for the next daemon of this host."""
        os.close(self._descriptor)

    def _store(self) -> None:
        """Not synced: the file has to outlive `kill -9`, not a power failure. A full disk does not stop commits."""
        content = msgspec.json.encode(StoredReceipts(self.database, self.newest)).ljust(self._length)
        self._length = len(content)
        try:
            os.pwrite(self._descriptor, content, 0)
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.warning("receipts_not_stored", path=str(self.path), error=str(error))
            self._failed = True


def missing(receipts: Sequence[Receipt], markers: Mapping[int, Mark]) -> list[Receipt]:
    """The receipts that the markers on the server do not prove. `markers` is by connection."""
    return [receipt for receipt in receipts if receipt.backend not in markers or markers[receipt.backend].number < receipt.number]


def abandoned(root: Path) -> Generator[tuple[UUID, StoredReceipts | None, Path]]:
    """The receipts files of daemons that ended; None for an unreadable one. Each is locked until the next is requested."""
    for path in sorted((root / FOLDER).glob("*")):
        with suppress(OSError, ValueError):
            daemon = UUID(path.name)
            with _locked(path):
                yield daemon, _read(path), path


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Raises OSError while the owner or another daemon has the file open, or when it was deleted before the lock."""
    descriptor = _open_locked(path)
    try:
        if not os.fstat(descriptor).st_nlink:
            raise FileNotFoundError(path)
        yield
    finally:
        os.close(descriptor)


def _read(path: Path) -> StoredReceipts | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=StoredReceipts)
    except msgspec.DecodeError:
        return None


def _create_locked(path: Path) -> int:
    """The file gets its name once it is locked: without a lock it is that of an ended daemon, whose file is deleted.

    A daemon that is killed before leaves an empty file with a dot in front of its name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unnamed = path.with_name(f".{path.name}")
    descriptor = _open_locked(unnamed, os.O_CREAT)
    unnamed.rename(path)
    return descriptor


def _open_locked(path: Path, flags: int = 0) -> int:
    """Raises BlockingIOError while another process holds the lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
