"""Settings and the database connection of a command. Imports are deferred, so that `--help` is fast."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import typer

from tidegate.daemon.identity.local_user import current_user
from tidegate.daemon.settings import Settings, read

if TYPE_CHECKING:
    from tidegate.daemon.postgres.database import Database
    from tidegate.schemas.queries.db import Db

T = TypeVar("T")
P = ParamSpec("P")


def read_settings(context: typer.Context, *needs: str) -> Settings:
    """The settings, overridden by the options before the command. Raises SettingsError if one of `needs` is missing."""
    return read(context.obj, needs=needs)


def query(context: typer.Context, work: Callable[Concatenate["Db", P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of `work(db, *args, **kwargs)` in one transaction."""
    return with_database(context, lambda database: database.run(work, *args, **kwargs))


def query_at(
    context: typer.Context, work: Callable[Concatenate["Db", P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
) -> tuple[T, datetime]:
    """As `query`, and the time of the transaction by the clock of Postgres."""

    async def timed(db: "Db") -> tuple[T, datetime]:
        return await work(db, *args, **kwargs), db.now

    return query(context, timed)


def with_database(context: typer.Context, work: Callable[["Database"], Awaitable[T]]) -> T:
    """The result of `work` on a database connection. Raises UnavailableError when Postgres is away, and the errors of `work`."""
    settings = read_settings(context, "postgres_dsn")
    import anyio

    from tidegate.daemon.cli.postgres import open_database

    async def run() -> T:
        async with open_database(settings, current_user(settings)) as database:
            return await work(database)

    return anyio.run(run)
