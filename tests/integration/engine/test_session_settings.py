"""What a role or a database has as its default changes no transaction of ours, or is named."""

import asyncpg
import pytest

from tidegate.daemon.postgres.database import connect
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries.db import Db


async def set_default(dsn: str, setting: str) -> None:
    """Of our role, in the database of this test."""
    connection = await asyncpg.connect(dsn)
    ours = await connection.fetchval("SELECT format('ROLE %I IN DATABASE %I', current_user, current_database())")
    await connection.execute(f"ALTER {ours} SET {setting}")
    await connection.close()


async def isolation(db: Db) -> str:
    return str(await db.connection.fetchval("SHOW transaction_isolation"))


async def test_a_transaction_sees_what_others_commit_whatever_the_role_has_as_its_default(dsn: str) -> None:
    await set_default(dsn, "default_transaction_isolation = 'repeatable read'")

    async with connect(dsn) as database:
        found = [await database.run(isolation), await database.autocommit(isolation)]
    async with connect(dsn, reads_within_s=5) as reading:
        found.append(await reading.run(isolation))

    assert found == ["read committed", "read committed", "repeatable read"]


async def test_a_role_that_may_not_write_by_default_is_named_as_the_cause(dsn: str) -> None:
    await set_default(dsn, "default_transaction_read_only = on")

    async with connect(dsn) as database:
        with pytest.raises(UnavailableError, match="or default_transaction_read_only is on for it, the database or the role"):
            await database.run(Db.execute, "CREATE TABLE t ()")
