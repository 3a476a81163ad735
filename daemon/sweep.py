"""The slow truth behind the wake-ups: attempts nobody hears of, and what is old enough to be forgotten."""

import anyio
import structlog
from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.outage import Backoff
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.message import LeaseLapsed
from tidegate.schemas.queries import inbox, submissions
from tidegate.schemas.queries.db import Db

log = structlog.get_logger()

FORGET_AT_ONCE = 10_000


async def sweep(context: Context, *, task_status: TaskStatus[None]) -> None:
    """For ever, with the first look after the time that an attempt may be silent: whoever was away gets to speak first."""
    backoff = Backoff()
    task_status.started()
    await anyio.sleep(context.settings.runner_heartbeat_s * 2)
    while True:
        try:
            await lapse(context)
            await forget(context)
            backoff.reset()
        except UnavailableError as error:
            context.outages.begin(error)
            await backoff.pause()
        await anyio.sleep(context.settings.runner_silent_s / 10)


async def lapse(context: Context) -> None:
    """Take the silent for dead; looked at once more under the lock."""
    silent_s = context.settings.runner_silent_s
    silent = await context.database.run(lambda db: submissions.silent(db, silent_s))
    if silent:
        log.warning("attempts_silent", count=len(silent), silent_s=silent_s)
        await context.tell([LeaseLapsed(submission_id=id_, silent_s=silent_s) for id_ in silent])


async def forget(context: Context) -> None:
    """Drop event ids that no redelivery can bring back."""

    async def work(db: Db) -> int:
        return await inbox.forget(db, context.settings.dedupe_days, FORGET_AT_ONCE)

    while await context.database.run(work) == FORGET_AT_ONCE:
        pass
