"""Observe: asks the backends for the state of running attempts, in case the event of their runner does not arrive.

An attempt ends by one event with a fixed id, so the reports of runner and daemon count once.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple
from uuid import UUID

import anyio
from anyio.abc import TaskGroup, TaskStatus

from tidegate.daemon.containment import Containment
from tidegate.daemon.context import Context
from tidegate.daemon.duties.finishes import submit_finishes
from tidegate.daemon.outage import Retry
from tidegate.daemon.spark.contract import Backend, Phase, Status
from tidegate.schemas.error import TooSlowError, UnavailableError
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
            await retry.once(_observe_and_kill, context, kills)
            if not started:
                task_status.started()
                started = True
            await anyio.sleep(context.settings.sweep_s)


async def _observe_and_kill(context: Context, kills: "Kills") -> None:
    to_kill, lost = await observe_round(context)
    kills.start(to_kill)
    if lost is not None:
        raise lost


class Round(NamedTuple):
    """The attempts to kill, and the outage of a backend that has not confirmed all attempts, or of an end that is too slow."""

    to_kill: list[Running]
    lost: UnavailableError | None


async def observe_round(context: Context) -> Round:
    """One round over the attempts whose backends this host can reach.

    Heartbeats come first, also of held DAGs: an attempt whose heartbeat is not recorded in time is lost.
    A full disk, on which nothing is confirmed, delays neither ends nor kills; an end that is too slow alone delays no kill.
    """
    observations = [await _observe_backend(backend, running) for backend, running in await _running(context)]
    lost = [await _record_heartbeats(context, observation) for observation in observations]
    lost += [await _report_ends(context, observation) for observation in observations]
    lost.append(await end_killed_intents(context))
    lost += [await _confirm(observation, dict.fromkeys(observation.waiting)) for observation in observations]
    return Round([each for observation in observations for each in observation.to_kill], next(filter(None, lost), None))


class Observation(NamedTuple):
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
    def to_kill(self) -> list[Running]:
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


async def _observe_backend(backend: Backend, running: Sequence[Running]) -> Observation:
    handles = {submission.submission_id: submission.handle for submission in running}
    return Observation(backend, running, await backend.status(handles))


async def _confirm(observation: Observation, recorded: Mapping[UUID, int | None]) -> UnavailableError | None:
    """Confirm the attempts, if there are any; the outage that keeps the backend from it."""
    try:
        if recorded:
            await observation.backend.confirm(recorded)
    except UnavailableError as error:
        return error
    return None


async def end_killed_intents(context: Context) -> UnavailableError | None:
    """End unsubmitted intents with a kill request, which no dispatcher claims any more. Returns as `_submit_ends`."""
    ends = [
        TaskFinished(submission_id=each.submission_id, token=each.token, outcome="killed", reason=each.kill_reason)
        for each in await context.database.autocommit(submissions.killed_intents)
    ]
    return await _submit_ends(context, ends)


async def _report_ends(context: Context, observation: Observation) -> UnavailableError | None:
    return await _submit_ends(context, [finish(each, observation.of(each)) for each in observation.ended])


async def _submit_ends(context: Context, ends: Sequence[TaskFinished]) -> UnavailableError | None:
    """Report the ends; the error of one that is too slow alone, after the others were applied."""
    try:
        await submit_finishes(context, ends)
    except TooSlowError as error:
        return error
    return None


class Kills:
    """The kills in progress, side by side and beside the rounds: each takes up to the grace that its task has."""

    def __init__(self, context: Context, tg: TaskGroup) -> None:
        self._context = context
        self._tg = tg
        self._limiter = anyio.CapacityLimiter(KILLS_AT_ONCE)
        self._in_progress: set[UUID] = set()
        self._containment = Containment(context.outages, "kill_failed")

    def start(self, attempts: Sequence[Running]) -> None:
        """Kill these attempts. A kill that is in progress is not begun again."""
        if not attempts:
            self._containment.end_outages()
        for submission in attempts:
            if submission.submission_id not in self._in_progress:
                self._in_progress.add(submission.submission_id)
                self._tg.start_soon(self._kill, submission)

    async def _kill(self, submission: Running) -> None:
        """A kill that fails is repeated after the next round, and delays no other attempt. Equal errors are logged once."""
        id_, backend = submission.submission_id, submission.backend
        try:
            with self._containment.of(id_, submission_id=str(id_), backend=backend):
                async with self._limiter:
                    await self._context.backends[backend].kill(submission.handle)
                self._containment.end_outages()
        finally:
            self._in_progress.discard(id_)


OUTCOMES: Mapping[Phase, Literal["succeeded", "failed", "skipped", "killed", "lost"]] = {
    Phase.SUCCEEDED: "succeeded",
    Phase.FAILED: "failed",
    Phase.SKIPPED: "skipped",
    Phase.KILLED: "killed",
    Phase.LOST: "lost",
}


def finish(attempt: Running, status: Status) -> TaskFinished:
    """The event for the status of an ended attempt."""
    return TaskFinished(
        submission_id=attempt.submission_id, token=attempt.token, outcome=OUTCOMES[status.phase], **status.facts()
    )


def _is_to_record(recorded_age_s: float, age_s: float, every_s: float) -> bool:
    """Whether a heartbeat is recorded in place of an older one, or of one in the future: the clock of Postgres was set back."""
    return recorded_age_s < 0 or recorded_age_s - age_s >= every_s


async def _record_heartbeats(context: Context, observation: Observation) -> UnavailableError | None:
    """Returns what `_confirm` returns."""
    heartbeats = [
        (submission.submission_id, age_s)
        for submission in observation.running
        if (age_s := observation.of(submission).heartbeat_age_s) is not None
        and _is_to_record(submission.heartbeat_age_s, age_s, context.settings.runner_heartbeat_s)
    ]
    if heartbeats:
        await context.database.autocommit(submissions.record_heartbeats, heartbeats)
    return await _confirm(observation, {id_: observation.statuses[id_].beat for id_, _ in heartbeats})
