"""Time: what is due by the clock of the database is told to who decides about it, and then the next due moment is slept for.

Nothing is polled: all due times are in Postgres, in shards, and each shard is one daemon's.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import anyio
import msgspec
from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.retry import Retry
from tidegate.daemon.work import Work
from tidegate.schemas.message import AttemptTimedOut, DeadlineDue, RetryDue, RunTimedOut, ScheduleDue
from tidegate.schemas.queries import clock as queries
from tidegate.schemas.queries.clock import Due
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import CLOCK, Duty

AT_ONCE = 1000
LONGEST_SLEEP_S = 60.0
SOON_S = 0.001
LOCKED_S = 0.1
"""How long a deadline waits that was passed over, because somebody else is at work on its run."""


def duties() -> list[Duty]:
    """One per shard."""
    return [Duty(CLOCK, str(shard)) for shard in range(queries.SHARDS)]


async def clock(context: Context, *, task_status: TaskStatus[None]) -> None:
    """For ever. Whatever makes something due earlier rings; a shard that changes hands is looked at by its new owner."""
    signal, retry = context.signals.of[Work.CLOCK], Retry(context.outages)
    task_status.started()
    while True:
        seconds = await retry.once(tick, context)
        if seconds is not None:
            with anyio.move_on_after(context.settings.lease_renew_s):
                await signal.wait(seconds)


async def tick(context: Context) -> float:
    """Tell what is due; seconds until the next thing is."""
    shards = [int(key) for key in context.held_leases.of(CLOCK)]
    if not shards:
        return LONGEST_SLEEP_S
    due, now = await context.database.ask(_look, shards)
    for kind in KINDS:
        at = kind.at(due)
        if at is not None and at <= now:
            await _tell(context, shards, kind)
    due, now = await context.database.ask(_look, shards)
    moments = [at for at in _passing_over(due, now).moments if at is not None]
    return max((min(moments) - now).total_seconds(), SOON_S) if moments else LONGEST_SLEEP_S


def _passing_over(due: Due, now: datetime) -> Due:
    """A deadline that is still there has been passed over."""
    is_there = due.deadline is not None and due.deadline <= now
    return msgspec.structs.replace(due, deadline=now + timedelta(seconds=LOCKED_S)) if is_there else due


async def _look(db: Db, shards: Sequence[int]) -> tuple[Due, datetime]:
    return await queries.next_due(db, shards), db.now


async def _tell(context: Context, shards: Sequence[int], kind: "Kind") -> None:
    while True:
        found = await context.database.ask(kind.find, shards, AT_ONCE)
        told = await context.submit_messages([kind.tell(each) for each in found]) if found else None
        if len(found) < AT_ONCE or not (told and told.effects):
            return


class Kind(NamedTuple):
    """Something that becomes due: when the first is, how those due are found, and what is told of each."""

    at: Callable[[Due], datetime | None]
    find: Callable[[Db, Sequence[int], int], Awaitable[Sequence[Any]]]
    tell: Callable[[Any], Any]


KINDS: Sequence[Kind] = (
    Kind(lambda due: due.run, queries.late_runs, lambda id_: RunTimedOut(dag_run_id=id_)),
    Kind(lambda due: due.attempt, queries.late_attempts, lambda id_: AttemptTimedOut(submission_id=id_)),
    Kind(lambda due: due.dag, queries.dags, lambda dag_id: ScheduleDue(dag_id=dag_id)),
    Kind(lambda due: due.retry, queries.retries, lambda key: RetryDue(dag_run_id=key[0], task_index=key[1])),
    Kind(lambda due: due.deadline, queries.passed_deadlines, lambda id_: DeadlineDue(deadline_id=id_)),
)
