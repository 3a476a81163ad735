"""The database of a command. Slow to import: it brings the driver."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tidegate.daemon.cli.pages import output
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.postgres.migrate import pending
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries import losses
from tidegate.schemas.queries.db import Db


@asynccontextmanager
async def open_database(dsn: str, user: str) -> AsyncIterator[Database]:
    """A connection of a user to a database whose schema is the one we know.

    Raises UnavailableError when Postgres is away, RequestError for another schema, PostgresError when it does not let us in.
    """
    async with connect(dsn, connections=1, writer=user) as database:
        await database.run(_check_schema)
        if await database.ask(losses.any_open):
            output.say("Postgres has lost commits that were acknowledged; see `tidegate losses list`")
        yield database


async def _check_schema(db: Db) -> None:
    if missing := await pending(db.connection):
        raise RequestError(f"the database lacks {missing[0]} of this version's schema; `tidegate migrate` brings it up to date")
