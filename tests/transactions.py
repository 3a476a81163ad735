"""Transactions beside those of the product."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg


@asynccontextmanager
async def transaction(dsn: str) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    """Committed at the end."""
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction(isolation="repeatable_read"):
            yield connection
    finally:
        await connection.close()
