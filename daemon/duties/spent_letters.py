"""Deletes dead letters that are too old, and the oldest ones while all take too much space.

One producer of broken records would otherwise fill the disk of Postgres. A dead letter that waits to be sent to Kafka stays.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

import structlog

from tidegate.daemon.context import Context
from tidegate.schemas.queries import dead_letters
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.dead_letters import DeadLetterState

log = structlog.get_logger()

AT_ONCE = 1000
MIB = 1 << 20

Delete = Callable[[Db], Awaitable[list[DeadLetterState]]]


async def expire_dead_letters(context: Context) -> None:
    """Delete the dead letters that were kept for `dead_letter_days`."""
    days = context.settings.dead_letter_days

    async def delete(db: Db) -> list[DeadLetterState]:
        return await dead_letters.expire(db, db.now - timedelta(days=days), AT_ONCE)

    await _delete_all(context, delete, because=f"older than TIDEGATE_DEAD_LETTER_DAYS ({days})")


async def shrink_dead_letters(context: Context) -> None:
    """Delete the oldest dead letters, closed ones before open ones, while all take more than `dead_letter_mb`."""
    most = context.settings.dead_letter_mb
    shrink = partial(dead_letters.shrink, most=most * MIB, limit=AT_ONCE)
    await _delete_all(context, shrink, because=f"more than TIDEGATE_DEAD_LETTER_MB ({most})")


async def _delete_all(context: Context, delete: Delete, because: str) -> None:
    """Delete until none is left. The loss of open ones is a warning, because no user has seen to them."""
    is_full = True
    while is_full:
        states = await context.database.autocommit(delete)
        if states:
            is_open = sum(state is DeadLetterState.OPEN for state in states)
            report = log.warning if is_open else log.info
            report("dead_letters_deleted", count=len(states), open=is_open, because=because)
        is_full = len(states) == AT_ONCE
