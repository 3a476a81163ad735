"""The files of one submission: all that a daemon and a runner know of each other.

    spec.json     what to do, written by the daemon before it starts a runner
    claim         who does it: the first runner to put it there; every other one leaves without doing anything
    heartbeat     touched while the runner lives
    kill          there when somebody wants it stopped
    log           stdout and stderr of everything the task started
    work/         temporary files of the task
    outcome.json  how it ended: the first to be put there is the truth

Each appears whole or not at all, and those that must not be forgotten are on the disk before anything follows from them.
"""

import os
import shutil
import time
from collections.abc import Container, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import msgspec

from tidegate.daemon.settings import PREFIX, SettingsError
from tidegate.daemon.spark.contract import LogChunk
from tidegate.daemon.spark.job import Claim, Job, Outcome
from tidegate.daemon.spark.process import Identity, alive

LOG_CHUNK_BYTES = 256 * 1024
GOING = ".going."

_encode = msgspec.json.Encoder().encode


class Spool:
    """A directory named by the submission's id. Where it does not exist, it reads as empty."""

    def __init__(self, root: Path, submission_id: UUID) -> None:
        self.submission_id = submission_id
        self.path = root / str(submission_id)
        self.log = self.path / "log"
        self.work = self.path / "work"

    def prepare(self, job: Job) -> None:
        """Make the directory, readable by nobody else, and store what to do."""
        self.work.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        _sync(self.path.parent)
        self._write("spec.json", _encode(job)).replace(self.path / "spec.json")
        _sync(self.path)

    def job(self) -> Job | None:
        content = _read(self.path / "spec.json")
        return None if content is None else msgspec.json.decode(content, type=Job)

    def prepared_at(self) -> datetime | None:
        return _modified_at(self.path / "spec.json")

    def claim(self, claimant: Identity) -> bool:
        """True for exactly one caller, ever. It survives a power failure, so that nothing is executed twice."""
        return self._put("claim", _encode(Claim(claimant=claimant, claimed_at=datetime.now(UTC))))

    def claimed(self) -> Claim | None:
        content = _read(self.path / "claim")
        return None if content is None else msgspec.json.decode(content, type=Claim)

    def beat(self) -> None:
        (self.path / "heartbeat").touch(mode=0o600)

    def heartbeat_at(self) -> datetime | None:
        return _modified_at(self.path / "heartbeat")

    def silent_s(self) -> float | None:
        """How long ago the last heartbeat was; a clock that was set back says 0."""
        beat = self.heartbeat_at()
        return None if beat is None else max(0.0, time.time() - beat.timestamp())

    def ask_to_stop(self) -> None:
        (self.path / "kill").touch(mode=0o600)
        _sync(self.path)

    def asked_to_stop(self) -> bool:
        return (self.path / "kill").exists()

    def end(self, outcome: Outcome) -> bool:
        """Store how it ended; False when that was known already."""
        return self._put("outcome.json", _encode(outcome))

    def outcome(self) -> Outcome | None:
        content = _read(self.path / "outcome.json")
        return None if content is None else msgspec.json.decode(content, type=Outcome)

    def read_log(self, offset: int) -> LogChunk:
        """Complete when the outcome was there before the end of the log was read."""
        ended = self.outcome() is not None or not self.path.exists()
        try:
            with self.log.open("rb") as file:
                file.seek(offset)
                content = file.read(LOG_CHUNK_BYTES)
                complete = ended and file.tell() >= os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            content, complete = b"", ended
        return LogChunk(content=content, next_offset=offset + len(content), complete=complete)

    def _put(self, name: str, content: bytes) -> bool:
        """Make the file appear with its content, unless one is there."""
        draft = self._write(name, content)
        try:
            (self.path / name).hardlink_to(draft)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        _sync(self.path)
        return True

    def _write(self, name: str, content: bytes) -> Path:
        draft = self.path / f".{name}.{uuid4().hex}"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return draft


def open_root(root: Path) -> None:
    """Make the directory of all spools if there is none. Raises SettingsError where nothing can be written into it."""
    probe = root / f".probe.{uuid4().hex}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"written")
        probe.unlink()
    except OSError as error:
        problem = f"{PREFIX}SPOOL_DIR: tasks cannot leave anything in {root}: {error.strerror}"
        raise SettingsError(f"{problem}; make room there, or choose another directory") from error


def spools(root: Path) -> Iterator[Spool]:
    """Every submission there is a directory for."""
    with suppress(FileNotFoundError):
        for path in root.iterdir():
            with suppress(ValueError):
                yield Spool(root, UUID(path.name))


def prune(root: Path, older_than_s: float, spared: Container[UUID] = frozenset()) -> int:
    """Remove what ended longer ago than that, or was never started, but for those spared. Returns how many are gone."""
    for remains in root.glob(f"{GOING}*"):
        shutil.rmtree(remains, ignore_errors=True)
    old = [spool for spool in spools(root) if spool.submission_id not in spared and _removable(spool, older_than_s)]
    for spool in old:
        # Renamed first: one that is half removed would not be known for one that ended.
        with suppress(FileNotFoundError):  # another daemon of this host was faster
            shutil.rmtree(spool.path.rename(root / f"{GOING}{spool.submission_id}"), ignore_errors=True)
    return len(old)


def _removable(spool: Spool, older_than_s: float) -> bool:
    claim = spool.claimed()
    last = _modified_at(spool.path / "outcome.json") if claim else spool.prepared_at()
    if last is None or last.timestamp() > time.time() - older_than_s:
        return False
    return claim is None or not alive(claim.claimant)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _modified_at(path: Path) -> datetime | None:
    with suppress(FileNotFoundError):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return None


def _sync(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
