"""A web server on a port and a database of the test's own."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from tests.integration.cli.history import DAEMON, HOST, History
from tidegate.daemon.gateway.service import Service, open_service
from tidegate.daemon.identity import credentials
from tidegate.daemon.permissions import ANY_DAG, Caller, Role
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.settings import Settings
from tidegate.daemon.standalone.web import NO_TLS
from tidegate.daemon.web.serve import Server, address_of, listen

HOUR_S = 3600.0
HOSTILE = "<script>alert(1)</script>"
PATIENCE_S = 60.0
"""For an answer: httpx gives up after 5 s, which a busy machine may take."""


class Site:
    """A web server that serves, and browsers and programs that call it."""

    def __init__(self, address: str, history: History, service: Service, logged: list[MutableMapping[str, Any]]) -> None:
        self.address = address
        self.logged = logged
        self.service = service
        self.history = history

    async def token(
        self, role: Role = Role.ADMIN, user: str = "anna", dags: tuple[str, ...] = ANY_DAG, life_s: float = HOUR_S
    ) -> str:
        caller = Caller(user, role, dags)
        return (await self.history.database.run(credentials.issue, "token", caller, life_s, "the test")).secret

    @asynccontextmanager
    async def anonymous(self, verify: ssl.SSLContext | bool = NO_TLS, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
        async with httpx.AsyncClient(**{"verify": verify, "base_url": self.address, "timeout": PATIENCE_S, **options}) as client:
            yield client

    @asynccontextmanager
    async def program(self, role: Role = Role.ADMIN, **owner: Any) -> AsyncIterator[httpx.AsyncClient]:
        """A client that sends a token."""
        token = await self.token(role, **owner)
        async with self.anonymous(headers={"authorization": f"Bearer {token}"}) as client:
            yield client

    @asynccontextmanager
    async def browser(self, role: Role = Role.ADMIN, **owner: Any) -> AsyncIterator[httpx.AsyncClient]:
        """A client that has logged in, and follows redirects."""
        async with self.anonymous(follow_redirects=True) as client:
            answer = await client.post("/login", data={"token": await self.token(role, **owner)})
            assert answer.status_code == httpx.codes.OK, answer.text
            yield client


@pytest.fixture
async def history(dsn: str) -> AsyncIterator[History]:
    async with connect(dsn, writer=DAEMON) as database:
        yield History(database)


@asynccontextmanager
async def serving(settings: Settings, history: History) -> AsyncIterator[Site]:
    """A web server with these settings. What it logs does not stand among the output of commands."""
    with capture_logs() as logged, listen(settings.web_host, settings.web_port) as listening:
        async with open_service(settings) as service:
            server = Server(service)
            # A fixture ends in another task than it began in, which a task group does not allow.
            task = asyncio.create_task(server.serve([listening]))
            yield Site(address_of(listening), history, service, logged)
            server.should_exit = True
            await task


MakeSite = Callable[..., Any]


@pytest.fixture
def make_site(dsn: str, history: History, tmp_path: Path) -> MakeSite:
    """Serve with settings of the test, on the host where attempts run."""
    usual = {"postgres_dsn": dsn, "kafka_servers": "", "web_port": 0, "host": HOST, "spool_dir": str(tmp_path / "spool")}

    def make(**given: Any) -> AbstractAsyncContextManager[Site]:
        return serving(Settings(**{**usual, **given}), history)

    return make


@pytest.fixture
async def site(make_site: MakeSite) -> AsyncIterator[Site]:
    async with make_site() as made:
        yield made


async def page(site: Site, path: str, **params: str) -> str:
    """The text of a page, for an administrator."""
    async with site.browser() as client:
        answer = await client.get(path, params=params or None)
    assert answer.status_code == HTTPStatus.OK, answer.text
    return answer.text


def csrf_of(page: httpx.Response) -> str:
    found = re.search(r'name="csrf" value="(\w+)"', page.text)
    assert found is not None
    return found[1]
