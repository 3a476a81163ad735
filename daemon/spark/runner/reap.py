"""Reaps a runner that was killed: ends its processes, then records the outcome. Only then may the task be retried."""

import logging
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain

from tidegate.daemon.spark.contact import SHARE, beat_every_s, elapsed
from tidegate.daemon.spark.process import KILLED_S, POLL_S, Identity, alive, below, end_all, stamped
from tidegate.daemon.spark.regular_file import DamagedError
from tidegate.daemon.spark.runner import kinds
from tidegate.daemon.spark.runner.conclusion import KILL_GRACE_S, patience_s, until_retry_s
from tidegate.daemon.spark.runner.limits import size
from tidegate.daemon.spark.runner.log_excerpt import log_excerpt
from tidegate.daemon.spark.runner.redaction import redaction_of
from tidegate.daemon.spark.session_of_task import of_ended, of_living
from tidegate.daemon.spark.spool import Claim, Outcome, Spool
from tidegate.schemas.notice import LogExcerpt

ADVICE = "its log shows a crash, and the log of the kernel (dmesg) a kill for lack of memory"

FROZEN = "it had sent no heartbeat for so long that its daemon ended it: it was stopped, or its host or spool hung"

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
        _end_session(spool)


def _reap(spool: Spool, runner: int | None) -> None:
    if spool.outcome() is not None:
        return
    if (claim := spool.claimed()) is None:
        raise DamagedError(spool.path / "claim", "was removed")
    if _is_gone(claim.claimant):
        end_all(spool.submission_id, _grace_s(spool), others=_of_runner(spool, claim.claimant, runner))
        _end_session(spool)
        outcome = _outcome(spool, claim)
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


def _end_session(spool: Spool) -> None:
    with suppress(DamagedError, OSError):
        if (job := spool.job()) is not None:
            kinds.end(job, patience_s(job))


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
