"""Long open transactions, which delay vacuum for the whole database."""

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("long_transactions")


class LongTransaction(msgspec.Struct, frozen=True):
    """An open transaction. `id` is unique; `application` of a prepared transaction is its name."""

    id: str
    role: str
    application: str
    address: str
    seconds: float


async def open_for(db: Db, seconds: float) -> list[LongTransaction]:
    """Transactions that are open for `seconds` or longer, oldest first, as far as the role of the session sees them."""
    return [LongTransaction(*row) for row in await db.fetch(_SQL["open_for"], seconds)]
