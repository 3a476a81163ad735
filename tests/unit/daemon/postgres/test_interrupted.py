"""Errors of the server and not of a statement: the transaction is repeated later, and nothing is refused for it."""

from typing import Any, cast

import asyncpg
import pytest

from tidegate.daemon.postgres.database import Database
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries.db import Db


class Failing:
    """A pool whose connections fail so."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def acquire(self, **_: Any) -> None:
        raise self.error

    async def expire_connections(self) -> None:
        """There are none."""


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.PostgresIOError("could not read block 7"),
        asyncpg.UndefinedFileError("could not open file"),
        asyncpg.TransactionRollbackError("rolled back"),
        asyncpg.StatementCompletionUnknownError("unknown"),
        asyncpg.TransactionTimeoutError("canceling statement due to transaction timeout"),
    ],
)
async def test_an_error_of_the_server_is_an_outage(error: Exception) -> None:
    database = Database(cast(Any, Failing(error)))

    with pytest.raises(UnavailableError, match=f"Postgres is not available: {error}"):
        await database.run(Db.execute, "SELECT 1")
