"""Clock: submits a message for each due time in Postgres, then sleeps until the next one.

Due times are in shards, and each shard is leased to one daemon.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from anyio.abc import TaskStatus

from tidegate.daemon.context import Context
from tidegate.daemon.engine import NOTHING
from tidegate.daemon.outage import Retry
from tidegate.daemon.work import Work
from tidegate.schemas.error import LockedError, TooSlowError
from tidegate.schemas.message import AttemptTimedOut, BackfillDue, DeadlineDue, EndDeferred, RetryDue, RunTimedOut, ScheduleDue
from tidegate.schemas.queries import clock as queries
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import CLOCK, LeaseSpec

MAX_BATCH = 1000
MAX_SLEEP_S = 60.0
MIN_SLEEP_S = 0.001
GAP_S = 0.02
"""The longest wait for the end of batches of intake."""

LOCKED_S = 0.1
"""Delay of what was skipped because another session has locked its DAG, its run or a row of it."""


def leases() -> list[LeaseSpec]:
    """One per shard."""
    return [LeaseSpec(CLOCK, str(shard)) for shard in range(queries.SHARDS)]


async def clock(context: Context, *, task_status: TaskStatus[None]) -> None:
    """Submit due messages, for ever. The signal wakes it for an earlier due time; new shards are seen every `lease_renew_s`."""
    signal, retry = context.signals.of[Work.CLOCK], Retry(context.outages)
    task_status.started()
    while True:
        seconds = await retry.once(submit_due, context)
        if seconds is None:
            continue
        await signal.wait(min(max(seconds, MIN_SLEEP_S), context.settings.lease_renew_s))
        if seconds <= 0:  # a decision made itself due again at once: a batch of intake goes before it
            await context.busy_intake.wait_for_gap(GAP_S)


async def submit_due(context: Context) -> float:
    """Submit the due messages of the leased shards. Returns the seconds until the next due time, which may have passed.

    The due times are read again only after messages were submitted. Raises the first TooSlowError, after the other messages
    were submitted.
    """
    shards = sorted(context.held_leases.shards(CLOCK))
    if not shards:
        return MAX_SLEEP_S
    due, now = await context.database.autocommit(_next_due, shards)
    if ready := [kind for kind in KINDS if kind in due and due[kind] <= now]:
        skipped = await _submit_kinds(context, shards, ready)
        due, now = await context.database.autocommit(_next_due, shards)
        again = now + timedelta(seconds=LOCKED_S)
        # A deadline that is due after all were submitted was skipped for a lock.
        due |= {kind: again for kind, at in due.items() if at <= now and kind in skipped | {"deadline"}}
    return (min(due.values()) - now).total_seconds() if due else MAX_SLEEP_S


async def _next_due(db: Db, shards: Sequence[int]) -> tuple[dict[str, datetime], datetime]:
    return await queries.next_due(db, shards), db.now


async def _submit_kinds(context: Context, shards: Sequence[int], kinds: Sequence[str]) -> set[str]:
    """Submit the due messages of each kind. Returns the kinds of which some were skipped: another session has locked their rows.

    Raises the first TooSlowError after the last kind.
    """
    slow, skipped = list[TooSlowError](), set[str]()
    for kind in kinds:
        try:
            if await _submit_kind(context, shards, kind):
                skipped.add(kind)
        except LockedError:
            skipped.add(kind)
        except TooSlowError as error:
            slow.append(error)
    if slow:
        raise slow[0]
    return skipped


async def _submit_kind(context: Context, shards: Sequence[int], kind: str) -> bool:
    """Submit batches until one is not full, or has no effect. Returns whether the last one skipped some."""
    while True:
        due = await context.database.autocommit(queries.due, kind, shards, MAX_BATCH)
        applied = await context.submit_messages([KINDS[kind](*key) for key in due]) if due else NOTHING
        if len(due) < MAX_BATCH or not applied.effects:
            return applied.has_skipped
        await context.busy_intake.wait_for_gap(GAP_S)


KINDS: Mapping[str, Callable[..., Any]] = {
    "end": lambda id_: EndDeferred(deferred_id=id_),
    "run": lambda id_: RunTimedOut(dag_run_id=id_),
    "attempt": lambda id_: AttemptTimedOut(submission_id=id_),
    "dag": lambda dag_id: ScheduleDue(dag_id=dag_id),
    "deferred": lambda dag_id: ScheduleDue(dag_id=dag_id, is_deferred=True),
    "backfill": lambda id_: BackfillDue(backfill_id=id_),
    "retry": lambda run, index: RetryDue(dag_run_id=run, task_index=index),
    "deadline": lambda id_: DeadlineDue(deadline_id=id_),
}
"""The message for each kind of due time, given the key of its row; in the order in which they are submitted."""
