"""Connects to the server of a multi-host DSN that takes writes, also while others do not answer."""

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
"""The time until the next server is also tried."""

REFUSALS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InternalClientError)
NOT_LET_IN = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)


class NoPrimaryError(asyncpg.TargetServerAttributeNotMatched):
    """No server of the DSN accepts the connection and takes writes."""


class Address(NamedTuple):
    """Host and port of a server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


async def connect(dsn: str | None = None, **options: Any) -> "Connection":
    """As `asyncpg.connect`, but tries the servers of a multi-host DSN in parallel.

    asyncpg tries them in turn within one `timeout`, which an unreachable first host uses up.
    """
    if dsn is None or len(addresses := servers(dsn)) < 2:
        return await asyncpg.connect(dsn, **options)
    if not _says_which(dsn):
        options = {**options, "target_session_attrs": "read-write"}
    return await _first(addresses, partial(asyncpg.connect, dsn, **options))


def servers(dsn: str) -> list[Address]:
    """The addresses in the DSN."""
    authority = re.split(r"[/?#]", dsn.partition("://")[2], maxsplit=1)[0].rpartition("@")[2]
    return [_address(part) for part in authority.split(",") if part]


def _address(part: str) -> Address:
    host, _, port = part.rpartition("]" if part.startswith("[") else ":") if ":" in part else (part, "", "")
    return Address(unquote(host.strip("[")) or "localhost", int(port.strip(":") or PORT))


def _says_which(dsn: str) -> bool:
    return "target_session_attrs" in parse_qs(dsn.partition("?")[2]) or "PGTARGETSESSIONATTRS" in os.environ


async def _first(addresses: Sequence[Address], open_: Callable[..., Awaitable["Connection"]]) -> "Connection":
    """The first connection that succeeds. Raises NoPrimaryError, or the error of the server when all deny access."""
    race = _Race(open_)
    try:
        async with anyio.create_task_group() as tg:
            for address in addresses:
                over = anyio.Event()
                tg.start_soon(race.run, address, over, tg.cancel_scope)
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
    """Connection attempts to several servers; the first success cancels the others."""

    def __init__(self, open_: Callable[..., Awaitable["Connection"]]) -> None:
        self.won: Connection | None = None
        self._open = open_
        self._failures: list[tuple[Address, Exception]] = []

    async def run(self, address: Address, over: anyio.Event, others: anyio.CancelScope) -> None:
        try:
            connection = await self._open(host=address.host, port=address.port)
        except REFUSALS as error:
            self._failures.append((address, error))
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
        reasons = "; ".join(f"{address}: {_why(error)}" for address, error in self._failures)
        return NoPrimaryError(f"no server takes writes ({reasons})")


def _why(error: Exception) -> str:
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return "it does not match target_session_attrs, such as a primary"
    return " ".join(str(error).split()) or type(error).__name__
