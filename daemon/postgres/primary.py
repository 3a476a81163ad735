"""The way to Postgres: of several servers to the one that takes writes, also while another one does not answer at all."""

import os
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import parse_qs, unquote

import anyio
import asyncpg

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]

PORT = 5432
WAIT_S = 0.5
"""So long a server may keep its answer to itself until the next one is asked, too."""

REFUSALS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InternalClientError)
NOT_LET_IN = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)


class NoPrimaryError(asyncpg.TargetServerAttributeNotMatched):
    """None of the servers lets us in and takes writes."""


class Place(NamedTuple):
    """Where a server is."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


async def connect(dsn: str | None = None, **options: Any) -> "Connection":
    """As `asyncpg.connect`, but of several servers in the dsn all are given a chance.

    asyncpg asks one after the other within one `timeout`, so that a first one whose host is gone hides the others.
    """
    if dsn is None or len(places := servers(dsn)) < 2:
        return await asyncpg.connect(dsn, **options)
    if not _says_which(dsn):
        options = {**options, "target_session_attrs": "read-write"}
    return await _first(places, partial(asyncpg.connect, dsn, **options))


def servers(dsn: str) -> list[Place]:
    """Those that the dsn names before its path."""
    authority = re.split(r"[/?#]", dsn.partition("://")[2], maxsplit=1)[0].rpartition("@")[2]
    return [_place(part) for part in authority.split(",") if part]


def _place(part: str) -> Place:
    host, _, port = part.rpartition("]" if part.startswith("[") else ":") if ":" in part else (part, "", "")
    return Place(unquote(host.strip("[")) or "localhost", int(port.strip(":") or PORT))


def _says_which(dsn: str) -> bool:
    return "target_session_attrs" in parse_qs(dsn.partition("?")[2]) or "PGTARGETSESSIONATTRS" in os.environ


async def _first(places: Sequence[Place], open_: Callable[..., Awaitable["Connection"]]) -> "Connection":
    """The first connection to be made. Raises NoPrimaryError, or why none of the servers lets us in."""
    race = _Race(open_)
    try:
        async with anyio.create_task_group() as tg:
            for place in places:
                over = anyio.Event()
                tg.start_soon(race.run, place, over, tg.cancel_scope)
                with anyio.move_on_after(WAIT_S):
                    await over.wait()
    except BaseException:
        if race.won is not None:
            race.won.terminate()
        raise
    if race.won is None:
        raise race.failure()
    return race.won


class _Race:
    """What came of each try."""

    def __init__(self, open_: Callable[..., Awaitable["Connection"]]) -> None:
        self.won: Connection | None = None
        self._open = open_
        self._failures: list[tuple[Place, Exception]] = []

    async def run(self, place: Place, over: anyio.Event, others: anyio.CancelScope) -> None:
        try:
            connection = await self._open(host=place.host, port=place.port)
        except REFUSALS as error:
            self._failures.append((place, error))
            over.set()
            return
        if self.won is None:
            self.won = connection
            others.cancel()
        else:
            connection.terminate()

    def failure(self) -> Exception:
        errors = [error for _, error in self._failures]
        if all(isinstance(error, NOT_LET_IN) for error in errors):
            return errors[0]
        said = "; ".join(f"{place}: {_why(error)}" for place, error in self._failures)
        return NoPrimaryError(f"no server takes writes ({said})")


def _why(error: Exception) -> str:
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return "it is not what target_session_attrs asks for, such as a primary"
    return " ".join(str(error).split()) or type(error).__name__
