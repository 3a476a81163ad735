"""Settings and the database connection of a command. Imports are deferred, so that `--help` is fast."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

import typer

from tidegate.daemon.identity.local_user import current_user
from tidegate.daemon.settings import PREFIX, Settings, SettingsError, read

if TYPE_CHECKING:
    from tidegate.daemon.cli.remote import Remote
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
    if read_settings(context).server:
        command = context.command_path
        raise SettingsError(f"{command} needs Postgres: leave out --server and {PREFIX}SERVER, and set {PREFIX}POSTGRES_DSN")
    settings = read_settings(context, "postgres_dsn")
    import anyio

    from tidegate.daemon.cli.postgres import open_database

    async def run() -> T:
        async with open_database(settings, current_user(settings)) as database:
            return await work(database)

    return anyio.run(run)


def remote(context: typer.Context) -> "Remote | None":
    """The server that commands call instead of Postgres, if there is one."""
    settings = read_settings(context)
    if not settings.server:
        return None
    from tidegate.daemon.cli.remote import Remote

    return Remote(settings)


def listed(
    context: typer.Context,
    path: str,
    row: type[T],
    work: Callable[["Db"], Awaitable[list[T]]],
    limit: int | None = None,
    **params: Any,
) -> tuple[list[T], datetime]:
    """The rows of a list, the first ones or all, and the time: from the API of the server, or by `work(db)`."""
    server = remote(context)
    return query_at(context, work) if server is None else (server.rows(path, row, limit, params), datetime.now(UTC))


def shown(
    context: typer.Context, path: str, type_: type[T], work: Callable[["Db"], Awaitable[T]], **params: Any
) -> tuple[T, datetime]:
    """A page and the time: from the API of the server, or by `work(db)`."""
    server = remote(context)
    return query_at(context, work) if server is None else (server.read(path, type_, params), datetime.now(UTC))


def changed(
    context: typer.Context,
    change: tuple[str, str],
    type_: type[T],
    work: Callable[["Database"], Awaitable[T]],
    body: Mapping[str, Any] | None = None,
    **params: Any,
) -> T:
    """The result of a change: by the API of the server, or by `work(database)`. `change` is its method and path."""
    server = remote(context)
    return with_database(context, work) if server is None else server.change(*change, type_, body or {}, params)


def at(*parts: object) -> str:
    """A path of these parts, for the functions before."""
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)
