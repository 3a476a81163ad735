"""The database connection of a command. Slow to import: it loads the driver."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tidegate.daemon.cli.pages import output
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.postgres.migrate import check_schema
from tidegate.daemon.settings import Settings
from tidegate.schemas.queries import losses


@asynccontextmanager
async def open_database(settings: Settings, user: str) -> AsyncIterator[Database]:
    """One connection to a database with the current schema. Reminds of lost commits on stderr.

    Raises UnavailableError when Postgres is away, RequestError for another schema, PostgresError for a refused login.
    """
    dsn, run_events = settings.postgres_dsn, settings.run_events
    async with connect(dsn, connections=1, writer=user, run_events=run_events, for_people=True) as database:
        await database.run(check_schema)
        if await database.autocommit(losses.any_open):
            output.say("Postgres has lost acknowledged commits; `tidegate losses list` shows when")
        yield database
