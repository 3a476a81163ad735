"""Observe: asks the backends for the state of running attempts, in case the event of their runner does not arrive.

An attempt ends by one event with a fixed id, so the reports of runner and daemon count once.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal
from uuid import UUID

import anyio
import structlog
from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.duties.dispatch import finish_id
from tidegate.daemon.outage import Retry
from tidegate.daemon.spark.contract import Backend, Phase, Status
from tidegate.schemas.error import FATAL, UnavailableError
from tidegate.schemas.queries import submissions
from tidegate.schemas.queries.submissions import Running
from tidegate.schemas.wire.event import TaskFinished

log = structlog.get_logger()

KILL = "kill"


async def observe(context: Context, *, task_status: TaskStatus[None]) -> None:
    """Observe, for ever. Started after the first round, so that attempts of this host do not count as silent before."""
    retry = Retry(context.outages, ends_outages=True)
    started = False
    while True:
        await retry.once(observe_round, context)
        if not started:
            task_status.started()
            started = True
        await anyio.sleep(context.settings.sweep_s)


async def observe_round(context: Context) -> None:
    """One round over the attempts whose backends this host can reach."""
    await end_killed_intents(context)
    names, host = list(context.backends), context.held_leases.job.host
    running = await context.database.autocommit(submissions.running, names, host, context.shared_backends)
    by_backend: dict[str, list[Running]] = defaultdict(list)
    for submission in running:
        by_backend[submission.backend].append(submission)
    for name, of_backend in by_backend.items():
        await _check(context, context.backends[name], of_backend)


async def end_killed_intents(context: Context) -> None:
    """End intents with a kill request that were never submitted. No dispatcher claims them any more."""
    doomed = await context.database.autocommit(submissions.killed_intents)
    if doomed:
        ends = [
            TaskFinished(submission_id=each.submission_id, token=each.token, outcome="killed", reason=each.kill_reason)
            for each in doomed
        ]
        await context.submit_messages(ends, [finish_id(end.submission_id) for end in ends])


async def _check(context: Context, backend: Backend, running: Sequence[Running]) -> None:
    statuses = await backend.status({submission.submission_id: submission.handle for submission in running})
    for submission in running:
        if submission.desired_state == KILL and statuses[submission.submission_id].phase not in OUTCOMES:
            await _kill(backend, submission)
    ended = [(each, status) for each in running if (status := statuses[each.submission_id]).phase in OUTCOMES]
    finishes = [finish(each, status) for each, status in ended]
    if finishes:
        await context.submit_messages(finishes, [finish_id(end.submission_id) for end in finishes])
    await _beat(context, running, statuses)


async def _kill(backend: Backend, submission: Running) -> None:
    """A kill that fails unexpectedly is repeated in the next round, and delays no other attempt."""
    try:
        await backend.kill(submission.handle)
    except (UnavailableError, *FATAL):
        raise
    except Exception:
        log.exception("kill_failed", submission_id=str(submission.submission_id), backend=backend.name)


OUTCOMES: Mapping[Phase, Literal["succeeded", "failed", "skipped", "killed"]] = {
    Phase.SUCCEEDED: "succeeded",
    Phase.FAILED: "failed",
    Phase.SKIPPED: "skipped",
    Phase.KILLED: "killed",
}


def finish(attempt: Running, status: Status) -> TaskFinished:
    """The event for the status of an ended attempt."""
    return TaskFinished(
        submission_id=attempt.submission_id, token=attempt.token, outcome=OUTCOMES[status.phase], **status.facts()
    )


async def _beat(context: Context, running: Sequence[Running], statuses: Mapping[UUID, Status]) -> None:
    heartbeats = [
        (submission.submission_id, silent_s)
        for submission in running
        if (silent_s := statuses[submission.submission_id].silent_s) is not None
        and submission.heartbeat_age_s - silent_s >= context.settings.runner_heartbeat_s
    ]
    if heartbeats:
        await context.database.autocommit(submissions.record_heartbeats, heartbeats)
