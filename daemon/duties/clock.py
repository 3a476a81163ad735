"""Clock: submits a message for each due time in Postgres, then sleeps until the next one.

Due times are in shards, and each shard is leased to one daemon.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import anyio
import msgspec
from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.outage import Retry
from tidegate.daemon.work import Work
from tidegate.schemas.message import AttemptTimedOut, DeadlineDue, RetryDue, RunTimedOut, ScheduleDue
from tidegate.schemas.queries import clock as queries
from tidegate.schemas.queries.clock import Due
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import CLOCK, Duty

MAX_BATCH = 1000
MAX_SLEEP_S = 60.0
MIN_SLEEP_S = 0.001
LOCKED_S = 0.1
"""Delay of a deadline that was skipped because another transaction has locked its run."""


def duties() -> list[Duty]:
    """One per shard."""
    return [Duty(CLOCK, str(shard)) for shard in range(queries.SHARDS)]


async def clock(context: Context, *, task_status: TaskStatus[None]) -> None:
    """Submit what is due, for ever. Wakes for an earlier due time by the signal, for a new shard every `lease_renew_s`."""
    signal, retry = context.signals.of[Work.CLOCK], Retry(context.outages)
    task_status.started()
    while True:
        seconds = await retry.once(tick, context)
        if seconds is not None:
            with anyio.move_on_after(context.settings.lease_renew_s):
                await signal.wait(seconds)


async def tick(context: Context) -> float:
    """Submit what is due in the leased shards; the seconds until the next due time."""
    shards = [int(key) for key in context.held_leases.of(CLOCK)]
    if not shards:
        return MAX_SLEEP_S
    due, now = await context.database.ask(_next_due, shards)
    for kind in KINDS:
        at = kind.at(due)
        if at is not None and at <= now:
            await _submit_due(context, shards, kind)
    due, now = await context.database.ask(_next_due, shards)
    moments = [at for at in _delay_locked(due, now).moments if at is not None]
    return max((min(moments) - now).total_seconds(), MIN_SLEEP_S) if moments else MAX_SLEEP_S


def _delay_locked(due: Due, now: datetime) -> Due:
    """A deadline that is due after all were submitted was skipped for a lock."""
    is_skipped = due.deadline is not None and due.deadline <= now
    return msgspec.structs.replace(due, deadline=now + timedelta(seconds=LOCKED_S)) if is_skipped else due


async def _next_due(db: Db, shards: Sequence[int]) -> tuple[Due, datetime]:
    return await queries.next_due(db, shards), db.now


async def _submit_due(context: Context, shards: Sequence[int], kind: "Kind") -> None:
    """Submit batches until one is not full, or has no effect."""
    while True:
        due = await context.database.ask(kind.due, shards, MAX_BATCH)
        applied = await context.submit_messages([kind.message(key) for key in due]) if due else None
        if len(due) < MAX_BATCH or not (applied and applied.effects):
            return


class Kind(NamedTuple):
    """A kind of due time: the earliest one, the query for the keys that are due, and the message for a key."""

    at: Callable[[Due], datetime | None]
    due: Callable[[Db, Sequence[int], int], Awaitable[Sequence[Any]]]
    message: Callable[[Any], Any]


KINDS: Sequence[Kind] = (
    Kind(lambda due: due.run, queries.late_runs, lambda id_: RunTimedOut(dag_run_id=id_)),
    Kind(lambda due: due.attempt, queries.late_attempts, lambda id_: AttemptTimedOut(submission_id=id_)),
    Kind(lambda due: due.dag, queries.dags, lambda dag_id: ScheduleDue(dag_id=dag_id)),
    Kind(lambda due: due.retry, queries.retries, lambda key: RetryDue(dag_run_id=key[0], task_index=key[1])),
    Kind(lambda due: due.deadline, queries.passed_deadlines, lambda id_: DeadlineDue(deadline_id=id_)),
)
