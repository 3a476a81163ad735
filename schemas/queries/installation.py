"""The installation that a database belongs to."""

from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load

_SQL = load("installation")


async def identity(db: Db) -> str:
    """An id that no other database has, from the memory of the process if it is in it."""
    if not db.memory.installation:
        db.memory.installation = (await db.fetch(_SQL["identity"]))[0][0]
    return db.memory.installation
