"""The conclusion of an attempt: its processes end, its outcome is stored, then published."""

import logging
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import NoReturn

import anyio
import msgspec

from tidegate.daemon.spark.contract import CallbackTask
from tidegate.daemon.spark.launch import RUNNER
from tidegate.daemon.spark.process import end_all
from tidegate.daemon.spark.regular_file import DamagedError
from tidegate.daemon.spark.runner import kinds, secrets
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.log_excerpt import log_excerpt
from tidegate.daemon.spark.runner.redaction import Redaction
from tidegate.daemon.spark.spool import Job, Outcome, Spool
from tidegate.events.publisher import Publisher
from tidegate.schemas.error import TidegateError
from tidegate.schemas.wire.event import FINISH_SOURCE, storable

log = logging.getLogger("tidegate")

PUBLISH_WITHIN_S = 10.0
LEFTOVER_GRACE_S = 1.0
KILL_GRACE_S = 5.0
KILLING_S = 1.0
"""How long processes are killed at most while threads of the task can start others."""


def conclude(spool: Spool, job: Job, outcome: Outcome, redact: Redaction | None) -> None:
    """Nothing of this attempt may overlap with a retry, on this host or the server. After a success the server ends later.

    Without `redact`, the end of the log stays on this host.
    """
    if outcome.outcome != "succeeded":
        kinds.end(job)
    _end_processes(spool, _grace_s(outcome))
    if redact is not None:
        outcome = _described(spool, job, outcome, redact)
    log.info("task %s%s", outcome.outcome, outcome.reason and f": {outcome.reason}")
    _store(spool, job, msgspec.structs.replace(outcome, reason=storable(outcome.reason), finished_at=datetime.now(UTC)))
    kinds.end(job)


def redaction_of(job: Job) -> Redaction | None:
    """None for a job whose secrets cannot be read: what is hidden is in them."""
    with suppress(TaskError):
        redact = Redaction(job.spark_remote)
        redact.hide(secrets.read_all(job).values())
        return redact
    return None


def exec_conclusion(spool: Spool, outcome: Outcome, environ: Mapping[str, str]) -> NoReturn:
    """Replace the program of this process by one that concludes, which ends every thread of the task.

    A thread cannot end another one. Otherwise a thread of the task would go on to start processes and to write, until the
    outcome is published. Processes are ended before, because the new program needs a moment to start, and again by it.
    `environ` is the environment from before the task, which can have changed it. Raises OSError when the program cannot start.
    """
    _end_processes(spool, grace := _grace_s(outcome), grace + KILLING_S)
    os.execve(RUNNER[0], (*RUNNER, "conclude", str(spool.path), "--outcome", msgspec.json.encode(outcome).decode()), environ)  # noqa: S606


def resume(spool: Spool, outcome: Outcome) -> None:
    """Continue what `exec_conclusion` began. Without the job, the daemon decides the outcome when all processes have ended."""
    _end_processes(spool, 0)
    try:
        job = spool.job()
    except (DamagedError, OSError) as damage:
        log.info("%s; ending the task", damage)
        job = None
    if job is not None:
        conclude(spool, job, outcome, redaction_of(job))


def _grace_s(outcome: Outcome) -> float:
    return KILL_GRACE_S if outcome.outcome == "killed" else LEFTOVER_GRACE_S


def _end_processes(spool: Spool, grace_s: float, within_s: float = math.inf) -> None:
    if left := end_all(spool.submission_id, grace_s, within_s):
        log.info("ended %d processes of the task", left)


def _described(spool: Spool, job: Job, outcome: Outcome, redact: Redaction) -> Outcome:
    """The outcome without secrets, and with the last lines of the log unless it is a success."""
    outcome = msgspec.structs.replace(outcome, reason=redact(outcome.reason))
    if outcome.outcome in ("succeeded", "skipped"):
        return outcome
    return msgspec.structs.replace(outcome, log=log_excerpt(spool, job.host, redact))


def _store(spool: Spool, job: Job, outcome: Outcome) -> None:
    """Store the outcome in the spool, then publish it."""
    try:
        is_first = spool.end(outcome)
    except OSError:
        log.exception("the outcome could not be stored")
        is_first = True
    if is_first and not isinstance(job.spec.task, CallbackTask):
        anyio.run(_publish, job, outcome)


async def _publish(job: Job, outcome: Outcome) -> None:
    """Publish the outcome to Kafka, by an id of the submission, so that duplicates have no effect.

    Without Kafka, or without the credentials for it, nothing is lost: daemons also read the spool.
    """
    if job.kafka_security is None:
        return
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
