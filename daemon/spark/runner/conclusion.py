"""The conclusion of an attempt: its processes end, its outcome is stored, then published."""

import fcntl
import logging
import math
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import NoReturn

import anyio
import msgspec

from tidegate.daemon.spark import unconfirmed
from tidegate.daemon.spark.contact import SHARE, elapsed
from tidegate.daemon.spark.contract import CallbackTask
from tidegate.daemon.spark.launch import RUNNER
from tidegate.daemon.spark.process import below, end_all
from tidegate.daemon.spark.regular_file import DamagedError
from tidegate.daemon.spark.runner import kinds
from tidegate.daemon.spark.runner.log_excerpt import log_excerpt
from tidegate.daemon.spark.runner.redaction import Redaction, redaction_of
from tidegate.daemon.spark.spool import Job, Outcome, Spool
from tidegate.events.publisher import Publisher
from tidegate.schemas.error import TidegateError
from tidegate.schemas.wire.event import FINISH_SOURCE, MAX_RECORD_BYTES, storable

log = logging.getLogger("tidegate")

PUBLISH_WITHIN_S = 10.0

STORE_EVERY_S, STORE_WITHIN_S = 1.0, 900.0
"""How often an outcome is stored again on a full disk, and how long where no other host takes the task over."""

PATIENCE_S = 60.0

MAY_GO_ON = "its work at its cluster may go on"

LEFTOVER_GRACE_S = 1.0
KILL_GRACE_S = 5.0
"""How long the processes of a killed task may take to end. A daemon waits for longer before it kills the runner."""

KILLING_S = 1.0
"""How long processes are killed at most while threads of the task can start others."""


def conclude(spool: Spool, job: Job, outcome: Outcome, redact: Redaction | None) -> None:
    """Nothing of this attempt may overlap with a retry, on this host or the server. After a success the server ends later.

    Its temporary files go last: they can be many. The end of a kill that a cluster does not confirm is left to the reaper.

    Without `redact`, the end of the log stays on this host.
    """
    _end_processes(spool, _grace_s(outcome))
    if kinds.may_leave_work(job, outcome) and (left := _left(spool, job, outcome)):
        if is_asked(spool, outcome):
            return
        outcome = msgspec.structs.replace(outcome, reason=f"{outcome.reason}; {left}")
    if redact is not None:
        outcome = _described(spool, job, outcome, redact)
    log.info("task %s%s", outcome.outcome, outcome.reason and f": {outcome.reason}")
    _store(spool, job, msgspec.structs.replace(outcome, reason=storable(outcome.reason), finished_at=datetime.now(UTC)))
    if outcome.outcome == "succeeded":
        kinds.close(job, spool)
    spool.clear()


def is_asked(spool: Spool, outcome: Outcome) -> bool:
    """Whether the outcome is the kill that a daemon has asked for, and waits for."""
    return outcome.outcome == "killed" and spool.asked_to_stop()


def _left(spool: Spool, job: Job, outcome: Outcome) -> str:
    """As `left_of`. It is kept for the reaper of a kill that the cluster has not confirmed."""
    within_s = patience_s(job) if outcome.outcome == "failed" else kinds.END_S
    if (left := left_of(spool, job, within_s, again=outcome.outcome == "killed")) and is_asked(spool, outcome):
        with suppress(OSError):  # a full disk
            unconfirmed.leave(spool, left)
    return left


def left_of(spool: Spool, job: Job, within_s: float, *, again: bool) -> str:
    """Ends the work of the attempt at its cluster; why it may go on there, without secrets, empty once its end is confirmed."""
    left = kinds.end(job, spool, within_s, again=again)
    redact = redaction_of(job) if left else None
    return redact(left) if redact else left and MAY_GO_ON


def exec_conclusion(spool: Spool, outcome: Outcome, environ: Mapping[str, str]) -> NoReturn:
    """Replace the program of this process by one that concludes, which ends every thread of the task.

    A thread cannot end another one. Otherwise a thread of the task would go on to start processes and to write, until the
    outcome is published. Processes are ended before, because the new program needs a moment to start, and again by it.
    `environ` is the environment from before the task, which can have changed it. Raises OSError when the program cannot start.

    Until then no file is used, nor the log: the spool may hang.
    """
    end_all(spool.submission_id, grace := _grace_s(outcome), grace + KILLING_S, others=partial(below, os.getpid()))
    pipe = pipe_with(msgspec.json.encode(outcome))
    # The new program would die of SIGTERM until it ignores it, and of the signal of a timer of the task, which goes on.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    os.execve(RUNNER[0], (*RUNNER, "conclude", str(spool.path), "--outcome", str(pipe)), environ)  # noqa: S606 - the runner itself


def pipe_with(content: bytes) -> int:
    """The end of a pipe from which the next program of this process reads all of the content at once.

    Other users would see an argument, which also has at most 128 KiB; a file needs space. Raises OSError.
    """
    readable, writable = os.pipe()
    if len(content) > fcntl.fcntl(writable, fcntl.F_GETPIPE_SZ):
        fcntl.fcntl(writable, fcntl.F_SETPIPE_SZ, len(content))
    os.write(writable, content)
    os.close(writable)
    os.set_inheritable(readable, True)  # noqa: FBT003 - it takes no keyword
    return readable


def resume(spool: Spool, pipe: int) -> None:
    """Continue what `exec_conclusion` began. Without the job, the daemon decides the outcome when all processes have ended."""
    # Read at once, not to the end: a process of the task can hold the other end.
    outcome = msgspec.json.decode(os.read(pipe, MAX_RECORD_BYTES), type=Outcome)
    _end_processes(spool, 0)
    _beat(spool)
    try:
        job = spool.job()
    except (DamagedError, OSError) as damage:
        log.info("%s; ending the task", damage)
        job = None
    if job is not None:
        conclude(spool, job, outcome, redaction_of(job))


def patience_s(job: Job) -> float:
    """How long a busy Spark server may take to end a session before a failure is told: its statement would go on beside a retry.

    At most half of the time until other hosts retry the task of a runner without contact.
    """
    return max(kinds.END_S, min(PATIENCE_S, until_retry_s(job) / 2))


def until_retry_s(job: Job) -> float:
    """What a runner without contact has left until other hosts retry its task."""
    return math.inf if job.silent_s is None else (1 - SHARE) * job.silent_s


def _grace_s(outcome: Outcome) -> float:
    return KILL_GRACE_S if outcome.outcome == "killed" else LEFTOVER_GRACE_S


def _end_processes(spool: Spool, grace_s: float) -> None:
    if left := end_all(spool.submission_id, grace_s, others=partial(below, os.getpid())):
        log.info("ended %d processes of the task", left)


def _described(spool: Spool, job: Job, outcome: Outcome, redact: Redaction) -> Outcome:
    """The outcome without secrets, and with the last lines of the log unless it is a success."""
    outcome = msgspec.structs.replace(outcome, reason=redact(outcome.reason))
    if outcome.outcome in ("succeeded", "skipped"):
        return outcome
    return msgspec.structs.replace(outcome, log=log_excerpt(spool, job.host, redact))


def _store(spool: Spool, job: Job, outcome: Outcome) -> None:
    """Store the outcome in the spool, then publish it. One of both is repeated until it is done: else a success would be lost."""
    until = elapsed() + (STORE_WITHIN_S if job.silent_s is None else job.silent_s)
    problem = ""
    while True:
        _beat(spool)
        try:
            is_first = spool.end(outcome)
        except OSError as error:
            if str(error) != problem:
                log.error("the outcome cannot be stored: %s", problem := str(error))  # noqa: TRY400 - the line says all
            spool.clear()  # They may be what fills the disk.
            if _is_published(job, outcome) or elapsed() > until:
                return
            time.sleep(STORE_EVERY_S)
        else:
            break
    if is_first:
        _is_published(job, outcome)


def _beat(spool: Spool) -> None:
    """The thread that sent heartbeats may have ended. A daemon of the host takes a silent runner for frozen."""
    with suppress(OSError):
        spool.beat()


def _is_published(job: Job, outcome: Outcome) -> bool:
    return not isinstance(job.spec.task, CallbackTask) and anyio.run(_publish, job, outcome)


async def _publish(job: Job, outcome: Outcome) -> bool:
    """Publish the outcome to Kafka, by an id of the submission, so that duplicates have no effect. Whether Kafka has it.

    Without Kafka, or without the credentials for it, nothing is lost: daemons also read the spool.
    """
    if job.kafka_security is None:
        return False
    run = job.spec.run
    publisher = Publisher(
        job.kafka_servers,
        source=FINISH_SOURCE,
        topic_prefix=job.topic_prefix,
        timeout_s=PUBLISH_WITHIN_S,
        security=job.kafka_security,
    )
    try:
        with anyio.fail_after(PUBLISH_WITHIN_S):
            async with publisher:
                await publisher.task_finished(
                    job.spec.submission_id,
                    outcome.outcome,
                    dag_id=run.dag_id,
                    run_id=run.run_id,
                    token=job.spec.token,
                    event_id=str(job.spec.submission_id),
                    **outcome.facts(),
                )
    except (TidegateError, TimeoutError) as error:
        log.debug("the outcome was not published: %s", error)
        return False
    return True
