"""Transactions of others that are open for long: what costs everybody who uses the database."""

import msgspec

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("held")


class HeldRow(msgspec.Struct, frozen=True):
    """A transaction that is open. `id` is of it alone; of a prepared one, `application` is its name."""

    id: str
    role: str
    application: str
    address: str
    seconds: float


async def held(db: Db, seconds: float) -> list[HeldRow]:
    """Those that have been open for so long, the oldest first; as far as we may see them."""
    return [HeldRow(*row) for row in await db.fetch(_SQL["held"], seconds)]
