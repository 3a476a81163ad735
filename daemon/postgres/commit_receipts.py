"""What Postgres has acknowledged to this daemon: kept in memory, and in a file that outlives the process.

A server that lacks any of it has lost commits: an asynchronous standby that was promoted, a restored copy, a disk that lied.
"""

import fcntl
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from uuid import UUID

import msgspec
import structlog

from tidegate.schemas.queries.losses import Mark

log = structlog.get_logger()

FOLDER = "receipts"


class Receipt(msgspec.Struct, frozen=True):
    """An acknowledged mark. `upto` is the last number that had been given out by then; `at` is by the server's clock."""

    backend: int
    number: int
    upto: int
    at: datetime


class Kept(msgspec.Struct, frozen=True):
    """What is in the file."""

    database: str
    receipts: tuple[Receipt, ...]


class Receipts:
    """Only the newest: commits are lost from the end, so a mark vouches for all that was acknowledged before it was given out.

    `spent` are the numbers of marks after which a later one was acknowledged on the same connection: only of its connection, for
    who looks at a new one may just hold receipts by which the newest mark of any other has to be there. That takes a number for
    each connection that was ever made.
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
        self._descriptor = _locked(self.path, os.O_CREAT)

    @property
    def held(self) -> tuple[Receipt, ...]:
        """What was acknowledged by now."""
        return tuple(self._newest.values())

    def next(self) -> int:
        """The number of a transaction that begins."""
        self._number += 1
        return self._number

    def take(self, backend: int, number: int, at: datetime) -> None:
        """The commit with this mark was acknowledged."""
        if backend in self._last:
            self.spent.add(self._last[backend])
        self._last[backend] = number
        self._newest = {key: old for key, old in self._newest.items() if old.upto >= number}
        self._newest[backend] = Receipt(backend, number, self._number, at)
        self._keep()

    def forget(self) -> None:
        """What is missing was told of."""
        self._newest = {}
        self._keep()

    def close(self) -> None:
        """The file stays for whoever comes next."""
        os.close(self._descriptor)

    def _keep(self) -> None:
        """Not synced: a process that is killed is what it has to outlive. A full disk keeps nobody from committing."""
        content = msgspec.json.encode(Kept(self.database, self.held)).ljust(self._length)
        self._length = len(content)
        try:
            os.pwrite(self._descriptor, content, 0)
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.warning("receipts_not_kept", path=str(self.path), error=str(error))
            self._failed = True


def missing(receipts: Sequence[Receipt], there: Mapping[int, Mark]) -> list[Receipt]:
    """Those whose connection is not known to have come so far."""
    return [it for it in receipts if it.backend not in there or there[it.backend].number < it.number]


def former(root: Path) -> Generator[tuple[UUID, Kept | None, Path]]:
    """What processes left that are no more, by daemon; None of what cannot be read.

    Nobody else gets it until the next one is asked for.
    """
    for path in sorted((root / FOLDER).glob("*")):
        with suppress(OSError, ValueError), _taken(path):
            yield UUID(path.name), _read(path), path


@contextmanager
def _taken(path: Path) -> Iterator[None]:
    """Raises OSError while its owner lives, or another one has taken it; also when that one is done with it."""
    descriptor = _locked(path)
    try:
        if not os.fstat(descriptor).st_nlink:
            raise FileNotFoundError(path)
        yield
    finally:
        os.close(descriptor)


def _read(path: Path) -> Kept | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Kept)
    except msgspec.DecodeError:
        return None


def _locked(path: Path, more: int = 0) -> int:
    """Raises BlockingIOError while somebody else has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | more, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
