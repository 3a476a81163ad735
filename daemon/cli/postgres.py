"""The database of a command, its refusals in the words of whoever set it up. Slow to import: it brings the driver."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import asyncpg

from tidegate.daemon.database import Database, connect, describe
from tidegate.daemon.migrate import pending
from tidegate.daemon.settings import SettingsError
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries.db import Db


@asynccontextmanager
async def open_database(dsn: str) -> AsyncIterator[Database]:
    """A connection to a database whose schema is the one we know.

    Raises UnavailableError when Postgres is away, SettingsError when it does not let us in, RequestError for another schema.
    """
    with translated():
        async with connect(dsn, connections=1) as database:
            await database.run(_check_schema)
            yield database


@contextmanager
def translated() -> Iterator[None]:
    """What Postgres itself refuses, as a sentence."""
    try:
        yield
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        raise SettingsError(f"Postgres does not let us in with TIDEGATE_POSTGRES_DSN: {describe(error)}") from error
    except asyncpg.PostgresError as error:
        raise RequestError(f"Postgres refused: {describe(error)}") from error


async def _check_schema(db: Db) -> None:
    if missing := await pending(db.connection):
        raise RequestError(f"the database lacks {missing[0]} of this version's schema; `tidegate migrate` brings it up to date")
