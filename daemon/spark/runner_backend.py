"""The backend of runners on this host: a spool directory and a process per submission.

Daemons and runners share only the spool, so every daemon of this host has the same view.
"""

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import anyio
import structlog

from tidegate.daemon.settings import Settings, spool_root
from tidegate.daemon.spark import event_file, launch, unconfirmed
from tidegate.daemon.spark.contact import SHARE
from tidegate.daemon.spark.contract import Backend, CallbackTask, Handle, LogChunk, Phase, Status, SubmissionSpec, backend_of
from tidegate.daemon.spark.host import host_of, write_probe
from tidegate.daemon.spark.job import job_of
from tidegate.daemon.spark.process import KILLED_S, alive, has_stamp, identify, send, stamped, until_gone
from tidegate.daemon.spark.regular_file import DamagedError
from tidegate.daemon.spark.spool import Claim, Outcome, Spool, spools
from tidegate.daemon.spark.spool_threads import SpoolThreads
from tidegate.schemas.dag import BACKENDS, kind_of
from tidegate.schemas.error import (
    CLUSTERS,
    FATAL,
    RUNNERS,
    NotStartedError,
    RejectedError,
    UnavailableError,
    described,
)
from tidegate.schemas.wire.event import Rejection

log = structlog.get_logger()

T = TypeVar("T")

KILL_GRACE_S = 15.0
"""More than a runner needs to end its task, `KILL_GRACE_S` and `KILLING_S` of `conclusion.py`, and to store the outcome."""

REAP_S = 20.0
REAPERS = 8
"""The most reapers that one call of `status` starts, so that the death of many runners delays it only for a moment."""

CLAIM_POLLS = 300
POLL_S = 0.05

UNREADABLE = frozenset((errno.EIO, errno.ESTALE, errno.EUCLEAN, errno.EBADMSG))
"""Errors that one file can have while all others are read."""

EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))
"""Errors of this process or host, not of a file."""


class RunnerBackend:
    """Runs the kinds of task that `schemas.dag.BACKENDS` maps to `name`."""

    visibility_grace_s = 5.0

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self.host: str | None = host_of(settings)
        self._settings = settings
        self._root = spool_root(settings)
        self._io = SpoolThreads(self._root).run
        self._reaped_at: dict[UUID, float] = {}
        self._last_reaped = UUID(int=0)
        self._known: dict[UUID, Handle | None] = {}

    async def check(self) -> None:
        await self._io(partial(write_probe, self._root))
        await launch.check()

    async def find(self, submission_id: UUID) -> Handle | None:
        spool = self._spool(submission_id)
        return _handle(spool, await self._io(partial(_claim_of, spool))) if await self._io(spool.has_claim) else None

    async def submit(self, spec: SubmissionSpec) -> Handle:
        """Returns when a runner has claimed the submission, a new one or an earlier one."""
        if backend_of(spec.task) != self.name:
            raise RejectedError(Rejection.INVALID, f"{self.name} does not run tasks of kind {kind_of(spec.task)}")
        spool = self._spool(spec.submission_id)
        if not await self._io(spool.has_claim):
            with nothing_started():
                await self._io(lambda: self._prepare(spool, spec))
            await launch.start("execute", spool, spec.task.resources)
        await self._until_claimed(spool)
        return _handle(spool, await self._io(partial(_claim_of, spool)))

    async def confirm(self, recorded: Mapping[UUID, int | None]) -> None:
        """A spool that cannot be written delays no other."""
        errors: list[OSError] = []

        def confirm() -> None:
            for id_, beat in recorded.items():
                try:
                    self._spool(id_).confirm(beat)
                except OSError as error:
                    errors.append(error)
            if errors:
                raise errors[0]

        await self._io(confirm)

    async def status(self, handles: Mapping[UUID, Handle]) -> Mapping[UUID, Status]:
        """Also kills frozen runners, and reaps killed ones; their attempts are `running` until then, because child processes may
        be alive.
        """
        found = await self._io(lambda: {id_: self._inspect(self._spool(id_), handle) for id_, handle in handles.items()})
        await self._reap({id_: handles[id_] for id_, (_, gone) in found.items() if gone})
        return {id_: status for id_, (status, _) in found.items()}

    async def running(self) -> Mapping[UUID, Handle]:
        """Without functions that receive notifications, which are no attempts."""
        return await self._io(self._running)

    async def kill(self, handle: Handle) -> None:
        """Returns when the runner ended; kills it after `KILL_GRACE_S`. What it leaves is ended by `status`."""
        spool = self._spool(UUID(handle["spool"]))
        await self._kill(spool, handle)
        if problem := await self._io(partial(unconfirmed.problem_of, spool)):
            raise UnavailableError(problem, server=CLUSTERS)

    async def _kill(self, spool: Spool, handle: Handle) -> None:
        claim = await self._io(lambda: _unless_damaged(spool, partial(_ask_to_stop, spool, handle)))
        if claim is None or not _is_runner(claim.claimant.pid, handle) or not send(claim.claimant, signal.SIGTERM):
            return
        with anyio.move_on_after(KILL_GRACE_S) as grace:
            await until_gone(claim.claimant)
        if grace.cancelled_caught:
            send(claim.claimant, signal.SIGKILL)
            with anyio.move_on_after(KILLED_S):
                await until_gone(claim.claimant)

    async def logs(self, handle: Handle, offset: int) -> LogChunk:
        spool = self._spool(UUID(handle["spool"]))
        return await self._io(lambda: spool.read_log(offset))

    def _spool(self, submission_id: UUID) -> Spool:
        return Spool(self._root, submission_id)

    def _prepare(self, spool: Spool, spec: SubmissionSpec) -> None:
        if spec.events_file:
            spool.make()
            event_file.take(Path(spec.events_file), spool)
        spool.prepare(job_of(self._settings, spec))

    def _inspect(self, spool: Spool, handle: Handle) -> tuple[Status, bool]:
        """The status, and whether processes of a runner without an outcome have to be ended.

        Any fault of one spool is the failure of its attempt. Raises OSError when the whole spool cannot be read.
        """
        try:
            return self._read_status(spool, handle)
        except DamagedError as damage:
            return self._status_of_damaged(spool, f"the files of the attempt were changed by another program: {damage}")
        except FATAL:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in EXHAUSTED:
                raise
            return self._status_of_damaged(spool, f"the files of the attempt cannot be read: {described(error)}")

    def _status_of_damaged(self, spool: Spool, reason: str) -> tuple[Status, bool]:
        """Failed, after all processes of the attempt have ended. Raises OSError when the whole spool cannot be read."""
        os.scandir(self._root).close()
        if list(stamped(spool.submission_id)):
            return Status(phase=Phase.RUNNING, reason=reason), True
        return Status(phase=Phase.FAILED, reason=reason, finished_at=datetime.now(UTC)), False

    def _read_status(self, spool: Spool, handle: Handle) -> tuple[Status, bool]:
        """As `_inspect`. The outcome is read last: a runner may end meanwhile. Raises DamagedError."""
        claim = spool.claimed()
        lives = claim is not None and alive(claim.claimant)
        if (outcome := spool.outcome()) is not None:
            return Status(phase=Phase(outcome.outcome), **outcome.facts()), False
        if claim is None:
            _require_no_record(spool, handle)
            return Status(phase=Phase.PENDING if self._is_starting(spool) else Phase.UNKNOWN), False
        lives = lives and not self._kill_frozen(spool, claim, handle)
        reason = "" if lives else "the runner was killed; ending its processes"
        phase = Phase.PENDING if lives and not spool.is_confirmed() else Phase.RUNNING
        beat, age_s = spool.last_beat(), spool.heartbeat_age_s()
        return Status(phase=phase, reason=reason, started_at=claim.claimed_at, heartbeat_age_s=age_s, beat=beat), not lives

    def _kill_frozen(self, spool: Spool, claim: Claim, handle: Handle) -> bool:
        """Kill a runner that has sent no heartbeat for so long that it would have ended itself; whether it was one."""
        is_frozen = spool.silence_s() >= SHARE * self._settings.runner_silent_s
        if not is_frozen or not _is_runner(claim.claimant.pid, handle):
            return False
        log.warning("runner_frozen", submission_id=str(spool.submission_id), pid=claim.claimant.pid)
        return send(claim.claimant, signal.SIGKILL)

    def _running(self) -> Mapping[UUID, Handle]:
        """Also of a runner that was killed, until `status` has had its processes ended."""
        found = [spool for spool in spools(self._root) if spool.has_claim() and not spool.has_outcome() and _claim_of(spool)]
        self._known = {spool.submission_id: self._handle_if_mine(spool) for spool in found}
        return {id_: handle for id_, handle in self._known.items() if handle}

    def _handle_if_mine(self, spool: Spool) -> Handle | None:
        """With the token of the attempt. Empty for an attempt of another backend, or of an installation with other topics.

        None while the job is missing or cannot be read. Raises OSError when the whole spool cannot be read.
        """
        known = self._known.get(spool.submission_id)
        if known is not None or (job := _unless_damaged(spool, spool.job)) is None:
            return known
        if isinstance(job.spec.task, CallbackTask) or backend_of(job.spec.task) != self.name:
            return {}
        if job.topic_prefix != self._settings.topic_prefix:
            return {}
        return {"spool": str(spool.submission_id), "token": job.spec.token or None}

    def _is_starting(self, spool: Spool) -> bool:
        prepared_at = spool.prepared_at()
        return prepared_at is not None and (datetime.now(UTC) - prepared_at).total_seconds() < self.visibility_grace_s

    async def _until_claimed(self, spool: Spool) -> None:
        """Poll for the claim, which is late while a systemd unit starts.

        Raises UnavailableError without one; NotStartedError if its unit has ended.
        """
        for _ in range(CLAIM_POLLS):
            if await self._io(spool.has_claim):
                return
            await anyio.sleep(POLL_S)
        unclaimed = NotStartedError if await launch.has_ended("execute", spool) else UnavailableError
        if not await self._io(spool.has_claim):
            raise unclaimed(f"no runner has claimed {spool.submission_id} yet; see {spool.log}", server=RUNNERS)

    async def _reap(self, gone: Mapping[UUID, Handle]) -> None:
        """Start at most `REAPERS` reapers, side by side, for submissions without one in the last `REAP_S`, in turn."""
        todo = self._due(gone, now := time.monotonic())[:REAPERS]
        self._reaped_at |= dict.fromkeys(todo, now)
        self._last_reaped = todo[-1] if todo else self._last_reaped
        async with anyio.create_task_group() as tg:
            for id_ in todo:
                tg.start_soon(self._start_reaper, id_, gone[id_])

    def _due(self, gone: Mapping[UUID, Handle], now: float) -> list[UUID]:
        """Those without a recent reaper, from the one after the last reaped. A call about other submissions forgets none."""
        self._reaped_at = {id_: at for id_, at in self._reaped_at.items() if now - at < REAP_S}
        return sorted(gone.keys() - self._reaped_at.keys(), key=lambda id_: (id_ <= self._last_reaped, id_))

    async def _start_reaper(self, submission_id: UUID, handle: Handle) -> None:
        options = [] if handle.get("pid") is None else ["--runner", str(handle["pid"])]
        with suppress(UnavailableError):  # said by the submits that fail as well; a later status tries again
            await launch.start("reap", self._spool(submission_id), options=options)


def open_backends(settings: Settings) -> Mapping[str, Backend]:
    """All backends, by the name stored with each submission. Opens no connection: runners do."""
    return {name: RunnerBackend(name, settings) for name in sorted(set(BACKENDS.values()))}


@contextmanager
def nothing_started() -> Iterator[None]:
    """An outage in this block comes before any start. Raises NotStartedError."""
    try:
        yield
    except NotStartedError:
        raise
    except UnavailableError as error:
        raise NotStartedError(str(error), server=error.server) from error


def _handle(spool: Spool, claim: Claim | None) -> Handle:
    return {"spool": str(spool.submission_id), "pid": None if claim is None else claim.claimant.pid}


def _is_runner(pid: int, handle: Handle) -> bool:
    """A task can write a claim that names another process, but the handle was recorded before it began. A runner of an unknown
    pid has the stamp, unless its task has overwritten the environment.
    """
    return pid == handle.get("pid") or has_stamp(pid, UUID(handle["spool"]))


def _unless_damaged(spool: Spool, read: Callable[[], T | None]) -> T | None:
    """None for a damaged submission, which is left to `status`. Raises OSError when the whole spool cannot be read."""
    try:
        return read()
    except DamagedError:
        return None
    except OSError as error:
        if error.errno not in UNREADABLE:
            raise
        os.scandir(spool.path.parent).close()
        return None


def _claim_of(spool: Spool) -> Claim | None:
    """The claim; None for a damaged one."""
    return _unless_damaged(spool, spool.claimed)


def _require_no_record(spool: Spool, handle: Handle) -> None:
    """Raises DamagedError for a submission without a claim whose runner was recorded: another program has removed its claim.

    Not if the whole directory was removed.
    """
    if handle.get("pid") is not None and spool.path.exists():
        raise DamagedError(spool.path / "claim", "was removed")


def _ask_to_stop(spool: Spool, handle: Handle) -> Claim | None:
    """The claim of the runner to stop, if there is one. Without one, claim the submission so that no runner can start.

    Raises DamagedError.
    """
    if not spool.path.exists() or spool.outcome() is not None:
        return None
    try:
        spool.ask_to_stop()
    except OSError:
        if (claim := spool.claimed()) is None:
            raise
        return claim  # A full disk keeps no runner from getting the signal, least of all the one that has filled it.
    if not spool.has_claim():
        _require_no_record(spool, handle)
    me = identify(os.getpid())
    if me is None or not spool.claim(me):
        return spool.claimed()
    reason = "killed before it started"
    spool.end(Outcome(outcome="killed", reason=reason, started_at=None, finished_at=datetime.now(UTC)))
    return None
