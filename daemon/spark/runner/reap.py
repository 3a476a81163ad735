"""Reaps a runner that was killed: ends its processes, then records the outcome. Only then may the task be retried."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import chain

import msgspec

from tidegate.daemon.spark import unconfirmed
from tidegate.daemon.spark.contact import SHARE, beat_every_s, elapsed
from tidegate.daemon.spark.process import KILLED_S, POLL_S, Identity, alive, below, end_all, stamped
from tidegate.daemon.spark.regular_file import DamagedError
from tidegate.daemon.spark.runner.conclusion import KILL_GRACE_S, is_asked, left_of, patience_s, until_retry_s
from tidegate.daemon.spark.runner.limits import size
from tidegate.daemon.spark.runner.log_excerpt import log_excerpt
from tidegate.daemon.spark.runner.redaction import redaction_of
from tidegate.daemon.spark.session_of_task import of_ended, of_living
from tidegate.daemon.spark.spool import Claim, Outcome, Spool
from tidegate.schemas.notice import LogExcerpt

ADVICE = "its log shows a crash, and the log of the kernel (dmesg) a kill for lack of memory"

FROZEN = "it had sent no heartbeat for so long that its daemon ended it: it was stopped, or its host or spool hung"

CONFIRM_WITHIN_S = 600.0
"""How long a kill is tried at a cluster that does not confirm it. The next try of the task ends first what is left."""

PAUSE_S = 5.0
BEAT_EVERY_S = 1.0

log = logging.getLogger("tidegate")


def reap(spool: Spool, runner: int | None) -> None:
    """Does nothing when the runner is alive, has recorded its outcome, or is being reaped.

    `runner` is its recorded pid: a task can write a claim that names another process.
    """
    try:
        with spool.lock():
            _reap(spool, runner)
    except BlockingIOError:
        return
    except (DamagedError, OSError) as damage:
        # No claim tells the runner from the task, so all processes end, and the daemon decides the outcome.
        log.info("%s; ending the task", damage)
        end_all(spool.submission_id, 0, others=_of_leaders(spool))
        _left(spool, again=False)


def _reap(spool: Spool, runner: int | None) -> None:
    if spool.outcome() is not None:
        return
    if (claim := spool.claimed()) is None:
        raise DamagedError(spool.path / "claim", "was removed")
    if _is_gone(claim.claimant):
        end_all(spool.submission_id, _grace_s(spool), others=_of_runner(spool, claim.claimant, runner))
        outcome = _confirmed(spool, _outcome(spool, claim))
        log.info("task %s: %s", outcome.outcome, outcome.reason)
        spool.end(outcome)
        spool.clear()


def _is_gone(runner: Identity) -> bool:
    """Waits for one that was just killed."""
    for _ in range(round(KILLED_S / POLL_S)):
        if not alive(runner):
            return True
        time.sleep(POLL_S)
    return False


def _of_leaders(spool: Spool) -> Callable[[], Iterable[Identity]]:
    """The processes without the stamp below a leader of a session that has it, such as the runner, or in its session."""
    leaders = [process for process in stamped(spool.submission_id) if _leads_session(process.pid)]
    sessions = list(map(of_living, leaders))

    def processes() -> Iterable[Identity]:
        yield from chain.from_iterable(below(leader.pid) for leader in leaders if alive(leader))
        yield from chain.from_iterable(session.processes() for session in sessions)

    return processes


def _leads_session(pid: int) -> bool:
    with suppress(OSError):
        return os.getsid(pid) == pid
    return False


def _of_runner(spool: Spool, claimant: Identity, runner: int | None) -> Callable[[], Iterable[Identity]]:
    """The processes without the stamp in the session of the runner, which ended before its next heartbeat."""
    with suppress(DamagedError, OSError):
        if runner == claimant.pid and (job := spool.job()) is not None and (age_s := spool.heartbeat_age_s()) is not None:
            # Reading the file can set the time that tells the silence, and a user that of the other clock.
            silence_s = max(age_s, spool.silence_s())
            return of_ended(claimant, elapsed() - silence_s + beat_every_s(job.heartbeat_s, job.silent_s)).processes
    return tuple


def _grace_s(spool: Spool) -> float:
    """The runner may have been frozen for long: its processes end before other hosts retry the task."""
    with suppress(DamagedError, OSError):
        if (job := spool.job()) is not None:
            return min(KILL_GRACE_S, until_retry_s(job) / 4)
    return KILL_GRACE_S


def _confirmed(spool: Spool, outcome: Outcome) -> Outcome:
    """The outcome once the cluster has confirmed the end of the attempt. A kill waits for that, for `CONFIRM_WITHIN_S`."""
    is_kill = is_asked(spool, outcome)
    while left := _left(spool, again=is_kill):
        log.warning("%s", left)
        if not is_kill or datetime.now(UTC) - unconfirmed.leave(spool, left) > timedelta(seconds=CONFIRM_WITHIN_S):
            return _unconfirmed(outcome, left, is_kill=is_kill)
        time.sleep(PAUSE_S)
    return msgspec.structs.replace(outcome, finished_at=datetime.now(UTC))


def _unconfirmed(outcome: Outcome, left: str, *, is_kill: bool) -> Outcome:
    """The daemon adds why it asked for a kill."""
    end, reason = ("lost", left) if is_kill else (outcome.outcome, f"{outcome.reason}; {left}")
    return msgspec.structs.replace(outcome, outcome=end, reason=reason, finished_at=datetime.now(UTC))


def _left(spool: Spool, *, again: bool) -> str:
    """Why the work of the attempt may go on at its cluster. Sends heartbeats meanwhile: other hosts would retry the task."""
    with suppress(DamagedError, OSError), beating(spool):
        if (job := spool.job()) is not None:
            return left_of(spool, job, patience_s(job), again=again)
    return ""


@contextmanager
def beating(spool: Spool) -> Iterator[None]:
    is_over = threading.Event()

    def beat() -> None:
        while not is_over.wait(BEAT_EVERY_S):
            with suppress(OSError):
                spool.beat()

    threading.Thread(target=beat, name="heart", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def _outcome(spool: Spool, claim: Claim) -> Outcome:
    beat = spool.heartbeat_at()
    seen = f"last heartbeat at {beat:%Y-%m-%d %H:%M:%S} UTC" if beat else "no heartbeat"
    found = f"pid {claim.claimant.pid}, {seen}{_memory_limit(spool)}"
    killed = spool.asked_to_stop()
    return Outcome(
        outcome="killed" if killed else "failed",
        reason="killed on request" if killed else f"the runner was killed or crashed ({found}); {_advice(spool)}",
        started_at=claim.claimed_at,
        finished_at=datetime.now(UTC),
        log=_log(spool),
    )


def _advice(spool: Spool) -> str:
    with suppress(DamagedError, OSError):
        if (job := spool.job()) is not None and job.silent_s is not None and spool.silence_s() >= SHARE * job.silent_s:
            return FROZEN
    return ADVICE


def _memory_limit(spool: Spool) -> str:
    """A task with a limit may have been ended for it, before its runner noticed."""
    with suppress(DamagedError, OSError):
        job = spool.job()
        resources = None if job is None else job.spec.task.resources
        if resources is not None and resources.memory_mb is not None:
            return f", memory limit {size(resources.memory_mb)}"
    return ""


def _log(spool: Spool) -> LogExcerpt | None:
    """None for an attempt whose job cannot be read, or whose secrets."""
    with suppress(DamagedError, OSError):
        if (job := spool.job()) is not None and (redact := redaction_of(job)) is not None:
            return log_excerpt(spool, job.host, redact)
    return None
