"""Observe: asks the backends for the state of running attempts, in case the event of their runner does not arrive.

An attempt ends by one event with a fixed id, so the reports of runner and daemon count once.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple
from uuid import UUID

import anyio
from anyio.abc import TaskGroup, TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.duties.dispatch import finish_id
from tidegate.daemon.fault_log import RepeatedFaults
from tidegate.daemon.outage import Retry
from tidegate.daemon.spark.contract import Backend, Phase, Status
from tidegate.schemas.error import FATAL, UnavailableError
from tidegate.schemas.queries import submissions
from tidegate.schemas.queries.submissions import Running
from tidegate.schemas.wire.event import TaskFinished

KILL = "kill"
KILLS_AT_ONCE = 100


async def observe(context: Context, *, task_status: TaskStatus[None]) -> None:
    """Observe, for ever. Started after the first round, so that attempts of this host do not count as silent before."""
    retry = Retry(context.outages, ends_outages=True)
    async with anyio.create_task_group() as tg:
        kills, started = Kills(context, tg), False
        while True:
            kills.start(await retry.once(observe_round, context) or ())
            if not started:
                task_status.started()
                started = True
            await anyio.sleep(context.settings.sweep_s)


async def observe_round(context: Context) -> list[Running]:
    """One round over the attempts whose backends this host can reach. Returns the attempts to kill.

    Heartbeats come first, also of held DAGs: an attempt whose heartbeat is not recorded in time is lost.
    """
    looks = [await _look(backend, of) for backend, of in await _running(context)]
    for look in looks:
        await _beat(context, look)
    for look in looks:
        await _end(context, look)
    await end_killed_intents(context)
    for look in looks:
        await _begin(look)
    return [each for look in looks for each in look.doomed]


class Look(NamedTuple):
    """The attempts of one backend and their statuses."""

    backend: Backend
    running: Sequence[Running]
    statuses: Mapping[UUID, Status]

    def of(self, submission: Running) -> Status:
        return self.statuses[submission.submission_id]

    @property
    def ended(self) -> list[Running]:
        return [each for each in self.running if not each.is_held and self.of(each).phase in OUTCOMES]

    @property
    def waiting(self) -> list[UUID]:
        """The attempts whose task waits for a confirmation: their daemon ended after it had recorded them."""
        alive = (each for each in self.running if each.desired_state != KILL)
        return [each.submission_id for each in alive if self.of(each).phase is Phase.PENDING]

    @property
    def doomed(self) -> list[Running]:
        """The attempts to kill."""
        alive = (each for each in self.running if not each.is_held and self.of(each).phase not in OUTCOMES)
        return [each for each in alive if each.desired_state == KILL]


async def _running(context: Context) -> list[tuple[Backend, list[Running]]]:
    names, host = list(context.backends), context.held_leases.job.host
    running = await context.database.autocommit(submissions.running, names, host, context.shared_backends)
    by_backend: dict[str, list[Running]] = defaultdict(list)
    for submission in running:
        by_backend[submission.backend].append(submission)
    return [(context.backends[name], of_backend) for name, of_backend in by_backend.items()]


async def _look(backend: Backend, running: Sequence[Running]) -> Look:
    return Look(backend, running, await backend.status({submission.submission_id: submission.handle for submission in running}))


async def _begin(look: Look) -> None:
    if waiting := look.waiting:
        await look.backend.confirm(dict.fromkeys(waiting))


async def end_killed_intents(context: Context) -> None:
    """End intents with a kill request that were never submitted. No dispatcher claims them any more."""
    doomed = await context.database.autocommit(submissions.killed_intents)
    if doomed:
        ends = [
            TaskFinished(submission_id=each.submission_id, token=each.token, outcome="killed", reason=each.kill_reason)
            for each in doomed
        ]
        await context.submit_messages(ends, [finish_id(end.submission_id) for end in ends])


async def _end(context: Context, look: Look) -> None:
    finishes = [finish(each, look.of(each)) for each in look.ended]
    if finishes:
        await context.submit_messages(finishes, [finish_id(end.submission_id) for end in finishes])


class Kills:
    """The kills in progress, side by side and beside the rounds: each takes up to the grace that its task has."""

    def __init__(self, context: Context, tg: TaskGroup) -> None:
        self._context = context
        self._tg = tg
        self._limiter = anyio.CapacityLimiter(KILLS_AT_ONCE)
        self._in_progress: set[UUID] = set()
        self._lost: set[str] = set()
        self._faults = RepeatedFaults("kill_failed")

    def start(self, doomed: Sequence[Running]) -> None:
        """Kill these attempts. A kill that is in progress is not begun again."""
        if not doomed:
            self._context.outages.end_all(self._lost)
        for submission in doomed:
            if submission.submission_id not in self._in_progress:
                self._in_progress.add(submission.submission_id)
                self._tg.start_soon(self._kill, submission)

    async def _kill(self, submission: Running) -> None:
        """A kill that fails is repeated after the next round, and delays no other attempt. Equal errors are logged once."""
        try:
            async with self._limiter:
                await self._context.backends[submission.backend].kill(submission.handle)
        except UnavailableError as error:
            self._lost.add(error.server)
            self._context.outages.begin(error)
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - any fault of a kill concerns its attempt alone
            self._faults.report(
                submission.submission_id, error, submission_id=str(submission.submission_id), backend=submission.backend
            )
        else:
            self._faults.end(submission.submission_id)
            self._context.outages.end_all(self._lost)
        finally:
            self._in_progress.discard(submission.submission_id)


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


async def _beat(context: Context, look: Look) -> None:
    heartbeats = [
        (submission.submission_id, silent_s)
        for submission in look.running
        if (silent_s := look.of(submission).silent_s) is not None
        and submission.heartbeat_age_s - silent_s >= context.settings.runner_heartbeat_s
    ]
    if heartbeats:
        await context.database.autocommit(submissions.record_heartbeats, heartbeats)
        await look.backend.confirm({id_: look.statuses[id_].beat for id_, _ in heartbeats})
