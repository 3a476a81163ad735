"""Transactions of others that are open for long: what costs everybody who uses the database."""

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("long_transactions")


class LongTransaction(msgspec.Struct, frozen=True):
    """A transaction that is open. `id` is of it alone; of a prepared one, `application` is its name."""

    id: str
    role: str
    application: str
    address: str
    seconds: float


async def open_for(db: Db, seconds: float) -> list[LongTransaction]:
    """Those that have been open for so long, the oldest first; as far as we may see them."""
    return [LongTransaction(*row) for row in await db.fetch(_SQL["open_for"], seconds)]
