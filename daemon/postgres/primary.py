"""Connects to the server of a multi-host DSN that takes writes, or to a standby, also while others do not answer."""

import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qs

import anyio
import asyncpg

from tidegate.daemon.postgres.address import Address, servers

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]

WAIT_S = 0.5
"""A server that has not answered for this time goes on in parallel with the next one."""

STANDBY_S = 2.0
"""How long a standby is waited for before the primary is read from."""

SAYS, PREFER_STANDBY = "target_session_attrs", "prefer-standby"
LACKING = {"read-write": "takes writes", "primary": "takes writes", "any": "answers"}

REFUSALS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InternalClientError)
NOT_LET_IN = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)


class NoPrimaryError(asyncpg.TargetServerAttributeNotMatched):
    """No server of the DSN accepts the connection and is of the wanted kind, by default one that takes writes."""


async def connect(dsn: str | None = None, *, prefers_standby: bool = False, **options: Any) -> "Connection":
    """As `asyncpg.connect`, but tries the servers of a multi-host DSN in parallel.

    asyncpg tries them in turn within one `timeout`, which an unreachable first host uses up. `target_session_attrs` of the DSN
    counts; without it, the server takes writes, or is a standby with `prefers_standby`, if there is one.
    """
    if dsn is None or len(addresses := servers(dsn)) < 2:
        return await asyncpg.connect(dsn, **options)
    open_ = partial(asyncpg.connect, dsn, **options)
    wanted = _said(dsn) or (PREFER_STANDBY if prefers_standby else "read-write")
    if wanted != PREFER_STANDBY:
        return await _first(addresses, open_, wanted)
    with suppress(NoPrimaryError), anyio.move_on_after(STANDBY_S):
        return await _first(addresses, open_, "standby")
    return await _first(addresses, open_, "any")


def _said(dsn: str) -> str | None:
    return parse_qs(dsn.partition("?")[2]).get(SAYS, [os.environ.get("PGTARGETSESSIONATTRS")])[-1]


async def _first(addresses: Sequence[Address], open_: Callable[..., Awaitable["Connection"]], wanted: str) -> "Connection":
    """The first connection to a wanted server. Raises NoPrimaryError, or the error of the server when all deny access."""
    race = _Race(open_, wanted)
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

    def __init__(self, open_: Callable[..., Awaitable["Connection"]], wanted: str) -> None:
        self.won: Connection | None = None
        self._open, self._wanted = partial(open_, **{SAYS: wanted}), wanted
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
        lacking = LACKING.get(self._wanted, f"matches {SAYS}={self._wanted}")
        return NoPrimaryError(f"no server {lacking} ({reasons})")


def _why(error: Exception) -> str:
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return f"it does not match {SAYS}, such as a primary"
    return " ".join(str(error).split()) or type(error).__name__
