"""The spool: the files of one submission, which are the only interface between daemon and runner.

    spec.json     the job, written by the daemon before it starts a runner
    claim         the identity of the runner that executes it; a second runner finds it and exits
    heartbeat     touched by the runner
    kill          present after a request to stop
    log           stdout and stderr of all processes of the task
    work/         temporary files of the task
    outcome.json  how the attempt ended; the first one written counts

Files appear complete or not at all. Claim and outcome are synced to disk before anything depends on them.
"""

import os
import shutil
import time
from collections.abc import Container, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar
from uuid import UUID, uuid4

import msgspec

from tidegate.daemon.settings import PREFIX, SettingsError
from tidegate.daemon.spark.contract import AttemptEnd, LogChunk, SubmissionSpec
from tidegate.daemon.spark.process import Identity, alive

T = TypeVar("T")

LOG_CHUNK_BYTES = 256 * 1024
REMOVING = ".going."

_encode = msgspec.json.Encoder().encode


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """`spec.json`: the submission and the addresses of its servers. Contains no credentials of the daemon."""

    spec: SubmissionSpec
    dags_folder: str
    spark_remote: str
    spark_master: str
    kafka_servers: str
    topic_prefix: str
    heartbeat_s: float


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """`claim`: the process that executes the submission."""

    claimant: Identity
    claimed_at: datetime


class Outcome(AttemptEnd, frozen=True, kw_only=True):
    """`outcome.json`: how the attempt ended; the reason is empty after a success."""

    outcome: Literal["succeeded", "failed", "skipped", "killed"]


class Spool:
    """The directory of a submission, named by its id. A missing directory reads as empty."""

    def __init__(self, root: Path, submission_id: UUID) -> None:
        self.submission_id = submission_id
        self.path = root / str(submission_id)
        self.log = self.path / "log"
        self.work = self.path / "work"

    def prepare(self, job: Job) -> None:
        """Create the directory, private to this user, and store the job."""
        self.work.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        _sync(self.path.parent)
        self._write("spec.json", _encode(job)).replace(self.path / "spec.json")
        _sync(self.path)

    def job(self) -> Job | None:
        return _read(self.path / "spec.json", Job)

    def prepared_at(self) -> datetime | None:
        return _modified_at(self.path / "spec.json")

    def claim(self, claimant: Identity) -> bool:
        """True for exactly one caller, ever, also across a power failure."""
        return self._put("claim", _encode(Claim(claimant=claimant, claimed_at=datetime.now(UTC))))

    def claimed(self) -> Claim | None:
        return _read(self.path / "claim", Claim)

    def beat(self) -> None:
        (self.path / "heartbeat").touch(mode=0o600)

    def heartbeat_at(self) -> datetime | None:
        return _modified_at(self.path / "heartbeat")

    def silent_s(self) -> float | None:
        """The age of the last heartbeat; 0 after the clock was set back."""
        beat = self.heartbeat_at()
        return None if beat is None else max(0.0, time.time() - beat.timestamp())

    def ask_to_stop(self) -> None:
        (self.path / "kill").touch(mode=0o600)
        _sync(self.path)

    def asked_to_stop(self) -> bool:
        return (self.path / "kill").exists()

    def end(self, outcome: Outcome) -> bool:
        """Store the outcome; False when there was one."""
        return self._put("outcome.json", _encode(outcome))

    def outcome(self) -> Outcome | None:
        return _read(self.path / "outcome.json", Outcome)

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
        """Create the file atomically with its content; False when it exists."""
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
    """Create the directory of all spools. Raises SettingsError when it is not writable."""
    probe = root / f".probe.{uuid4().hex}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"written")
        probe.unlink()
    except OSError as error:
        problem = f"{PREFIX}SPOOL_DIR: {root} is not writable: {error.strerror}"
        raise SettingsError(f"{problem}; make room there, or choose another directory") from error


def spools(root: Path) -> Iterator[Spool]:
    """The spools of all submissions in the directory."""
    with suppress(FileNotFoundError):
        for path in root.iterdir():
            with suppress(ValueError):
                yield Spool(root, UUID(path.name))


def prune(root: Path, older_than_s: float, spared: Container[UUID] = frozenset()) -> int:
    """Delete spools that ended, or were prepared and never claimed, more than `older_than_s` ago. Returns their number."""
    for remains in root.glob(f"{REMOVING}*"):
        shutil.rmtree(remains, ignore_errors=True)
    old = [spool for spool in spools(root) if spool.submission_id not in spared and _removable(spool, older_than_s)]
    for spool in old:
        # Renamed first: a partly deleted spool would look like one that never ended.
        with suppress(FileNotFoundError):  # another daemon of this host was faster
            shutil.rmtree(spool.path.rename(root / f"{REMOVING}{spool.submission_id}"), ignore_errors=True)
    return len(old)


def _removable(spool: Spool, older_than_s: float) -> bool:
    claim = spool.claimed()
    last = _modified_at(spool.path / "outcome.json") if claim else spool.prepared_at()
    if last is None or last.timestamp() > time.time() - older_than_s:
        return False
    return claim is None or not alive(claim.claimant)


def _read(path: Path, type_: type[T]) -> T | None:
    with suppress(FileNotFoundError):
        return msgspec.json.decode(path.read_bytes(), type=type_)
    return None


def _modified_at(path: Path) -> datetime | None:
    with suppress(FileNotFoundError):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return None


def _sync(directory: Path) -> None:
    """Sync the entries of a directory to disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
