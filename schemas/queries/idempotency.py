"""Requests with an Idempotency-Key, and their results."""

from datetime import datetime

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("idempotency")

KEPT_S = 24 * 3600.0
"""How long a result is kept."""


class ClaimedKey(msgspec.Struct, frozen=True):
    """A key, claimed now or by an earlier request. `status` and `content` are its result; None while it is at work for `age_s`.

    `since`: the first claim, which sets its requests apart from those of the same key on another day.
    """

    is_new: bool
    since: datetime
    digest: bytes
    status: int | None
    content: bytes | None
    age_s: float


async def claim(db: Db, username: str, key: str, digest: bytes) -> ClaimedKey:
    """Claim a key for a request, unless an earlier one has it."""
    await db.execute(_SQL["forget"], KEPT_S)
    (row,) = await db.fetch(_SQL["claim"], username, key, digest)
    return ClaimedKey(*row)


async def take_over(db: Db, username: str, key: str, after_s: float) -> bool:
    """Claim the key of a request that has been unfinished for longer than `after_s`; False if another request did."""
    return bool(await db.fetch(_SQL["take_over"], username, key, after_s))


async def give_up(db: Db, username: str, key: str) -> None:
    """Let a repeat take the request over at once: it failed, and may have taken effect."""
    await db.execute(_SQL["give_up"], username, key)


async def finish(db: Db, username: str, key: str, status: int, content: bytes) -> None:
    """Store the result of the request."""
    await db.execute(_SQL["finish"], username, key, status, content)


async def release(db: Db, username: str, key: str) -> None:
    """Forget a request that changed nothing."""
    await db.execute(_SQL["release"], username, key)
