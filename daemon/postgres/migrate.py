"""Migrations of the schema: numbered, forward only, one transaction each, one process at a time.

Daemons may run meanwhile. A waiting lock request blocks all later ones, so a migration waits for `LOCK_TIMEOUT_MS` only, and
pauses before the next attempt.
"""

import random
from collections.abc import Callable, Collection
from datetime import datetime
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

import anyio
import asyncpg

from tidegate.daemon.postgres.database import AWAY, INTERRUPTED, describe
from tidegate.daemon.postgres.primary import connect
from tidegate.daemon.postgres.session_settings import MIGRATING
from tidegate.schemas.error import POSTGRES, RequestError, TidegateError, UnavailableError
from tidegate.schemas.queries.db import Db

if TYPE_CHECKING:
    from tidegate.schemas.queries.db import Connected

LOCK = 0x7469_6465_6761_7465
"""The advisory lock of migrations: "tidegate" in ASCII."""

LOCKED_PAUSE_S = 2.0
"""The pause before the next try to get it."""

LOCK_TIMEOUT_MS = 1000
PAUSE_S = 2.0
TRIES = 30
BUSY = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)

_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migration (
    name text PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""

_HOLDER = """
SELECT activity.pid, host(activity.client_addr) AS address, activity.backend_start AS since
FROM pg_locks JOIN pg_stat_activity AS activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND (classid::bigint << 32) + objid::bigint = $1
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

FOLDER: Traversable = files("tidegate.schemas").joinpath("migrations")

OLDEST = "0.1.0+g518cb487 of 2026-11-25"
"""The oldest build whose databases can be upgraded: since then no migration has changed or moved."""


class SchemaError(TidegateError):
    """The database has another schema than this version needs."""


def known() -> list[str]:
    """The names of all migrations, in order."""
    return sorted(entry.name for entry in FOLDER.iterdir() if entry.name.endswith(".sql"))


async def migrate(dsn: str, say: Callable[[str], None] = lambda _: None) -> list[str]:
    """Apply the missing migrations; returns their names. Says which other session it waits for.

    Raises SchemaError for a database that another version made, or whose texts are not UTF-8; UnavailableError when Postgres does
    not answer or a table stays locked, PostgresError when access is denied.
    """
    connection = await _connect(dsn)
    try:
        _refuse_encoding(await connection.fetchval("SHOW server_encoding"))
        await _lock(connection, say)
        await connection.execute(_TABLE)
        missing = await pending(connection)
        for name in missing:
            await _apply(connection, name)
        return missing
    finally:
        await connection.close()


async def pending(connection: "Connected") -> list[str]:
    """The names of missing migrations. Raises SchemaError when the database is newer than this version."""
    applied = await _applied(connection)
    _refuse_unknown(applied)
    return [name for name in known() if name not in applied]


async def _connect(dsn: str) -> "asyncpg.Connection[asyncpg.Record]":
    try:
        return await connect(dsn, timeout=10, server_settings=MIGRATING)
    except (*AWAY, *INTERRUPTED, TimeoutError) as error:
        raise UnavailableError(f"cannot connect to Postgres: {describe(error)}", server=POSTGRES) from error


async def _lock(connection: "asyncpg.Connection[asyncpg.Record]", say: Callable[[str], None]) -> None:
    """Take the lock of migrations, or say who has it and try again."""
    told = None
    while not await connection.fetchval("SELECT pg_try_advisory_lock($1)", LOCK):
        holder = await connection.fetchrow(_HOLDER, LOCK)
        if holder is not None and holder["pid"] != told:
            told = holder["pid"]
            say(_waiting(*holder))
        await anyio.sleep(LOCKED_PAUSE_S)


def _waiting(pid: int, address: str | None, since: datetime | None) -> str:
    """Postgres hides address and time of the session of another role."""
    client = f", from {address}" if address else ""
    begin = f", since {since:%Y-%m-%d %H:%M:%S} UTC" if since else ""
    return (
        f"waits for another `tidegate migrate`: session {pid} of Postgres{client}{begin}; if its process is gone, end the "
        f"session by SELECT pg_terminate_backend({pid})"
    )


async def _apply(connection: "asyncpg.Connection[asyncpg.Record]", name: str) -> None:
    sql = FOLDER.joinpath(name).read_text()
    for attempt in range(1, TRIES + 1):
        try:
            async with connection.transaction():
                await connection.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
                await connection.execute(sql)
                await connection.execute("INSERT INTO schema_migration (name) VALUES ($1)", name)
        except BUSY as error:
            if attempt == TRIES:
                message = f"migration {name} waits for a lock that another transaction holds: {describe(error)}"
                raise UnavailableError(message, server=POSTGRES) from error
            await anyio.sleep(random.uniform(0, PAUSE_S))  # noqa: S311, not a secret
        else:
            return


def _refuse_encoding(encoding: str) -> None:
    """Names and values of users have any character, which only one encoding of Postgres has."""
    if encoding != "UTF8":
        raise SchemaError(
            f"the database has the encoding {encoding}, and Tidegate needs UTF8; create one with it, such as by "
            "CREATE DATABASE tidegate ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0"
        )


async def is_newer(dsn: str) -> bool:
    """Whether a newer version than this one has migrated the database; not if that cannot be asked."""
    try:
        connection = await _connect(dsn)
    except (TidegateError, asyncpg.PostgresError):
        return False
    try:
        return bool(_newer(await _applied(connection)))
    finally:
        await connection.close()


async def _applied(connection: "Connected") -> set[str]:
    if not await connection.fetchval("SELECT to_regclass('schema_migration')"):
        return set()
    return {row["name"] for row in await connection.fetch("SELECT name FROM schema_migration")}


def _newer(applied: Collection[str]) -> list[str]:
    """The migrations that come after those of this version."""
    return sorted(name for name in applied if name[:4] > known()[-1][:4])


def _refuse_unknown(applied: set[str]) -> None:
    """A database that is newer than this version, or older than each that can be upgraded. Says which side is older."""
    if newer := _newer(applied):
        raise SchemaError(
            f"this version is older than the database, which has migration {newer[-1]}: it knows those up to {known()[-1]}; "
            "upgrade tidegate"
        )
    if unknown := sorted(applied - set(known())):
        raise SchemaError(
            f"the database is older than each that this version can upgrade: its migration {unknown[0]} is one of a build before "
            f"{OLDEST}; create a new database, set TIDEGATE_POSTGRES_DSN to it, and run `tidegate migrate`"
        )


async def check_schema(db: Db) -> None:
    """Raises RequestError for a schema that lacks migrations of this version."""
    if missing := await pending(db.connection):
        raise RequestError(f"the database schema lacks {missing[0]} of this version; update it with `tidegate migrate`")
