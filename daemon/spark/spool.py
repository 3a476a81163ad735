"""The spool: the files of one submission, which are the only interface between daemon and runner.

    spec.json     the job, written by the daemon before it starts a runner
    events.jsonl  the events of its run, if they are too many for the job
    claim         the identity of the runner that executes it; a second runner finds it and exits
    confirmed     present once the daemon has recorded the claim: the task begins; its time is that of the last recorded heartbeat
    heartbeat     touched by the runner; its time of access is the time since the start of the host
    kill          present after a request to stop
    log           stdout and stderr of all processes of the task
    outcome.json  how the attempt ended; the first one written counts

Files appear complete or not at all. Claim and outcome are synced to disk before anything depends on them.

The temporary files of the task are elsewhere (`Spool.work`). Tasks run as the user of the daemon, so a task can still write here:
readers raise DamagedError for a file that Tidegate cannot have written, and never wait for one.
"""

import fcntl
import os
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar
from uuid import UUID, uuid4

import msgspec

from tidegate.daemon.spark import whole_file
from tidegate.daemon.spark.contact import elapsed
from tidegate.daemon.spark.contract import AttemptEnd, LogChunk, SubmissionSpec
from tidegate.daemon.spark.process import Identity, alive
from tidegate.daemon.spark.regular_file import DamagedError, open_directory, open_regular, read_regular
from tidegate.daemon.spark.removal import remove
from tidegate.schemas.error import RejectedError
from tidegate.schemas.kafka_security import KafkaSecurity
from tidegate.schemas.time_range import Moment
from tidegate.schemas.wire.envelope import check_body
from tidegate.schemas.wire.event import MAX_RECORD_BYTES

T = TypeVar("T")

LOG_CHUNK_BYTES = 256 * 1024
MAX_SPEC_BYTES = 1 << 28
MAX_CLAIM_BYTES = 1 << 12
WORK, SHORT = "work", "tmp"
REMOVING = ".going."

_encode = msgspec.json.Encoder().encode


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """`spec.json`: the submission and the addresses of its servers. Its only credentials are in the address of Spark.

    `kafka_security` names files of secrets. It is None if the daemon has a secret of Kafka by value: tasks can read the job.
    `secrets_dirs` are the folders with the secrets of tasks, in the order in which they are searched.

    Other hosts retry the task when no heartbeat was recorded for `silent_s`; None: never.
    """

    spec: SubmissionSpec
    dags_folder: str
    spark_remote: str
    spark_master: str
    kafka_servers: str
    kafka_security: KafkaSecurity | None = KafkaSecurity()
    topic_prefix: str
    secrets_dirs: tuple[str, ...] = ()
    heartbeat_s: float
    silent_s: float | None = None
    host: str = ""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """`claim`: the process that executes the submission."""

    claimant: Identity
    claimed_at: Moment


class Outcome(AttemptEnd, frozen=True, kw_only=True):
    """`outcome.json`: how the attempt ended; the reason is empty after a success."""

    outcome: Literal["succeeded", "failed", "skipped", "killed", "lost"]


class Spool:
    """The directory of a submission, named by its id. A missing directory reads as empty."""

    def __init__(self, root: Path, submission_id: UUID) -> None:
        self.submission_id = submission_id
        self.path = root / str(submission_id)
        self.log = self.path / "log"
        # A directory between, so that a task that writes or deletes beside its temporary files meets those of no other attempt.
        self.work = root / WORK / str(submission_id) / "files"
        self._short = root / SHORT / submission_id.hex[:16] / "t"

    def make(self) -> None:
        """Create the directories, private to this user."""
        for directory in (self.path, self.work.parent, self.work):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.chmod(0o700)
        with suppress(OSError):  # it is there, or the file system has no links
            self._short.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._short.symlink_to(Path("..", "..", *self.work.parts[-3:]))

    @property
    def tmp(self) -> Path:
        """The folder of temporary files, by a path of 23 bytes below the spools. The path of a Unix socket has at most 107 bytes.

        Multiprocessing, for one, adds 32 bytes for its sockets.
        """
        return self._short if os.path.exists(self._short) else self.work

    def prepare(self, job: Job) -> None:
        """Store the job, and create the directories if they are missing."""
        self.make()
        whole_file.sync(self.path.parent)
        whole_file.replace(self.path / "spec.json", _encode(job))

    def job(self) -> Job | None:
        return self._read("spec.json", MAX_SPEC_BYTES, Job)

    def prepared_at(self) -> datetime | None:
        return _modified_at(self.path / "spec.json")

    def claim(self, claimant: Identity) -> bool:
        """True for exactly one caller, ever, also across a power failure."""
        return whole_file.create(self.path / "claim", _encode(Claim(claimant=claimant, claimed_at=datetime.now(UTC))))

    def claimed(self) -> Claim | None:
        return self._read("claim", MAX_CLAIM_BYTES, Claim)

    def has_claim(self) -> bool:
        """Whether there is a claim, damaged or not."""
        return os.path.lexists(self.path / "claim")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Holds the lock of the directory. Raises BlockingIOError when another process has it."""
        descriptor = open_directory(self.path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            os.close(descriptor)

    def beat(self) -> int:
        """Touch the heartbeat, and return its time in ns, which names this heartbeat."""
        path = self.path / "heartbeat"
        _touch(path)
        os.utime(path, ns=(int(elapsed() * 1e9), path.lstat().st_mtime_ns), follow_symlinks=False)
        return path.lstat().st_mtime_ns

    def silence_s(self) -> float:
        """The age of the last heartbeat by a clock that no user sets; 0 for a runner of an older version, or without one."""
        with suppress(FileNotFoundError):
            return max(0.0, elapsed() - (self.path / "heartbeat").lstat().st_atime)
        return 0.0

    def last_beat(self) -> int | None:
        """The time in ns of the last heartbeat."""
        with suppress(FileNotFoundError):
            return (self.path / "heartbeat").lstat().st_mtime_ns
        return None

    def heartbeat_at(self) -> datetime | None:
        return _modified_at(self.path / "heartbeat")

    def confirm(self, beat: int | None = None) -> None:
        """The claim is recorded, or this heartbeat of its runner. Does nothing without a directory."""
        with suppress(FileNotFoundError):
            if beat is None and self.is_confirmed():
                return
            _touch(self.path / "confirmed")
            if beat is not None:
                os.utime(self.path / "confirmed", ns=(beat, beat), follow_symlinks=False)

    def is_confirmed(self) -> bool:
        return os.path.lexists(self.path / "confirmed")

    def confirmed_beat(self) -> int | None:
        """The last recorded heartbeat, as `beat` named it; another time if none was recorded yet."""
        with suppress(FileNotFoundError):
            return (self.path / "confirmed").lstat().st_mtime_ns
        return None

    def changed_at(self) -> datetime | None:
        """The time of the last step of the submission that is on record; without any, the time of its directory."""
        steps = (self.path / name for name in ("outcome.json", "heartbeat", "claim", "spec.json", ""))
        return next((at for path in steps if (at := _modified_at(path)) is not None), None)

    def heartbeat_age_s(self) -> float | None:
        """The age of the last heartbeat; 0 after the clock was set back."""
        beat = self.heartbeat_at()
        return None if beat is None else max(0.0, time.time() - beat.timestamp())

    def ask_to_stop(self) -> None:
        _touch(self.path / "kill")
        whole_file.sync(self.path)

    def asked_to_stop(self) -> bool:
        return os.path.lexists(self.path / "kill")

    def end(self, outcome: Outcome) -> bool:
        """Store the outcome; False when there was one."""
        return whole_file.create(self.path / "outcome.json", _encode(outcome))

    def has_outcome(self) -> bool:
        """Whether there is an outcome, damaged or not."""
        return os.path.lexists(self.path / "outcome.json")

    def outcome(self) -> Outcome | None:
        return self._read("outcome.json", MAX_RECORD_BYTES, Outcome, check_body)

    def clear(self) -> None:
        """Delete the temporary files of the task. What cannot be deleted is left to `prune`."""
        _remove_work(self.path.parent, self.path.name)

    def read_log(self, offset: int) -> LogChunk:
        """Complete when the outcome was there before the end of the log was read."""
        ended = self.has_outcome() or not self.path.exists()
        try:
            with os.fdopen(open_regular(self.log), "rb") as file:
                is_past = offset > os.fstat(file.fileno()).st_size  # file systems refuse an offset that no file can have
                content = b"" if is_past else os.pread(file.fileno(), LOG_CHUNK_BYTES, offset)
                size = os.fstat(file.fileno()).st_size
                complete = ended and offset + len(content) >= size
        except FileNotFoundError:
            content, complete, size = b"", ended, 0
        return LogChunk(content=content, next_offset=offset + len(content), complete=complete, size=size)

    def _read(self, name: str, max_bytes: int, type_: type[T], check: Callable[[bytes], object] = bytes) -> T | None:
        """The content of a file; None without one. Raises DamagedError for anything that Tidegate does not write."""
        path = self.path / name
        try:
            content = read_regular(path, max_bytes)
            check(content)
            return msgspec.json.decode(content, type=type_)
        except FileNotFoundError:
            return None
        except (RejectedError, ValueError, RecursionError) as error:
            raise DamagedError(path, f"cannot be read: {error}") from error


def spools(root: Path) -> Iterator[Spool]:
    """The spools of all submissions in the directory."""
    with suppress(FileNotFoundError):
        for path in root.iterdir():
            with suppress(ValueError):
                yield Spool(root, UUID(path.name))


def prune(root: Path, older_than_s: float, spared: Container[UUID] = frozenset()) -> int:
    """Delete spools without a runner whose last change was more than `older_than_s` ago. Returns their number.

    Temporary files go when their attempt has ended, where its runner could not delete them.
    """
    for remains in root.glob(f"{REMOVING}*"):
        with suppress(ValueError):
            _remove_work(root, str(UUID(remains.name.removeprefix(REMOVING))))
        remove(remains, REMOVING)
    old = [spool for spool in spools(root) if spool.submission_id not in spared and _removable(spool, older_than_s)]
    for spool in old:
        # Renamed first: a partly deleted spool would look like one that never ended.
        with suppress(OSError):  # another daemon of this host was faster, or the directory was spoiled
            remove(spool.path.rename(root / f"{REMOVING}{spool.submission_id}"), REMOVING)
            _remove_work(root, str(spool.submission_id))
    _remove_unused(root, older_than_s)
    _remove_links(root)
    return len(old)


def _remove_unused(root: Path, older_than_s: float) -> None:
    """Delete temporary files of attempts that have ended, and old ones of submissions without a spool.

    New ones without a spool belong to a submission whose spool is made next.
    """
    for work in root.glob(f"{WORK}/*"):
        is_orphan = not os.path.lexists(root / work.name)
        if _is_old(work, older_than_s) if is_orphan else _has_ended(root / work.name):
            _remove_work(root, work.name)


def _has_ended(path: Path) -> bool:
    """Whether the attempt has an outcome, and its runner, if it can be told, is gone."""
    with suppress(DamagedError, OSError, ValueError):
        spool = Spool(path.parent, UUID(path.name))
        return spool.has_outcome() and ((claim := spool.claimed()) is None or not alive(claim.claimant))
    return False


def _remove_links(root: Path) -> None:
    """Delete the links to removed temporary files."""
    for folder in root.glob(f"{SHORT}/*"):
        if not os.path.exists(folder / "t"):
            _remove_folder(root, folder)


def _remove_work(root: Path, name: str) -> None:
    _remove_folder(root, root / WORK / name)


def _remove_folder(root: Path, folder: Path) -> None:
    with suppress(OSError):
        remove(folder.rename(root / f"{REMOVING}{uuid4()}"), REMOVING)


def _removable(spool: Spool, older_than_s: float) -> bool:
    """Whether the spool is old and its runner, if there is one, ended. A damaged spool is as old as its directory."""
    try:
        claim, last = spool.claimed(), spool.changed_at()
    except DamagedError:
        return _is_old(spool.path, older_than_s)
    except OSError:  # a spool that cannot be read keeps no other from being removed
        return False
    if last is None or last.timestamp() > time.time() - older_than_s:
        return False
    return claim is None or not alive(claim.claimant)


def _is_old(path: Path, older_than_s: float) -> bool:
    """Also with an impossible time."""
    try:
        last = _modified_at(path)
    except DamagedError:
        return True
    return last is not None and last.timestamp() <= time.time() - older_than_s


def _touch(path: Path) -> None:
    """Set the time of modification, of a link itself, to now. Creates an empty file where there is nothing."""
    try:
        os.utime(path, follow_symlinks=False)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _modified_at(path: Path) -> datetime | None:
    """Raises DamagedError for a time that no clock shows: file systems store any time that a program sets."""
    try:
        seconds = path.lstat().st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise DamagedError(path, f"has an impossible time: {seconds:.0f} s since 1970") from error
