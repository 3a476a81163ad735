"""A login that Postgres refuses: a wrong setting before the first connection, an outage afterwards."""

import errno
import socket
from typing import Any

import asyncpg
import pytest

from tidegate.daemon.postgres import primary
from tidegate.daemon.postgres.database import connect, describe
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries.db import Db

DSN = "postgresql://127.0.0.1:9/none"
CLOSED = asyncpg.ObjectNotInPrerequisiteStateError("database is not currently accepting connections")
LOGINS = (asyncpg.InvalidPasswordError("password authentication failed"), asyncpg.InvalidCatalogNameError("no such database"))


async def refused(monkeypatch: pytest.MonkeyPatch, error: Exception, *, has_connected: bool) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(primary, "connect", refuse)
    async with connect(DSN) as database:
        database.has_connected = has_connected
        await database.run(Db.execute, "SELECT 1")


@pytest.mark.parametrize("error", LOGINS)
async def test_a_refused_login_is_a_wrong_setting_before_the_first_connection(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with pytest.raises(type(error)):
        await refused(monkeypatch, error, has_connected=False)


@pytest.mark.parametrize(("error", "has_connected"), [(CLOSED, False), *((error, True) for error in (CLOSED, *LOGINS))])
async def test_any_other_refusal_is_an_outage(monkeypatch: pytest.MonkeyPatch, error: Exception, has_connected: bool) -> None:
    with pytest.raises(UnavailableError, match=f"Postgres is not available: {error}"):
        await refused(monkeypatch, error, has_connected=has_connected)


CALL = "Connect call failed ('127.0.0.1', 5432)"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (TimeoutError(), "it does not answer"),
        (asyncpg.ConnectionDoesNotExistError("connection was closed in the middle"), "the connection ended before the answer"),
        (ConnectionRefusedError(errno.ECONNREFUSED, CALL), "Connection refused at 127.0.0.1:5432"),
        (OSError(f"Multiple exceptions: [Errno 111] {CALL}, [Errno 113] {CALL}"), "Multiple exceptions: Connection refused at"),
        (OSError(errno.ENETUNREACH, "Connect call failed ('::1', 9, 0, 0)"), "Network is unreachable at ::1:9"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), "Connection reset by peer"),
        (KeyError(), "KeyError"),
    ],
)
def test_an_outage_is_said_without_the_words_of_the_code(error: Exception, text: str) -> None:
    assert describe(error).startswith(text)
    assert "Errno" not in describe(error)
