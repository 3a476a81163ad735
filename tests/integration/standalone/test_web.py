"""The web page of a standalone: its port, and the link that logs its first visitor in."""

import socket
from http import HTTPStatus
from pathlib import Path

import httpx

from tidegate.daemon.postgres.database import connect
from tidegate.daemon.settings import Settings
from tidegate.daemon.standalone.command import another_link, login_link
from tidegate.daemon.standalone.handed_on import to_web
from tidegate.daemon.standalone.port import LOOPBACK, choose
from tidegate.daemon.standalone.web import Web


async def test_a_link_logs_its_first_visitor_in(dsn: str, tmp_path: Path) -> None:
    given = Settings(postgres_dsn=dsn, kafka_servers="", host="here", producer_url="http://jobs.example/{id}")
    async with Web(tmp_path / "web", {"postgres_dsn": dsn, **to_web(given)}, 0) as web, connect(dsn) as database:
        link = await login_link(web.address, database, given)
        async with httpx.AsyncClient(follow_redirects=True) as first, httpx.AsyncClient() as second:
            other = await another_link(web.address, given)
            page = await first.get(link)
            again = await second.get(link)
            anew = await second.get(other)

    assert link.startswith(f"{web.address}/login?link=tdg_")
    assert "@here, admin" in page.text
    assert again.status_code == HTTPStatus.UNAUTHORIZED
    assert (anew.status_code, anew.headers["location"]) == (HTTPStatus.SEE_OTHER, "/")


async def test_it_gets_its_port_unless_that_is_taken(dsn: str, tmp_path: Path) -> None:
    (port,) = choose(1)
    with socket.create_server((LOOPBACK, port)):
        async with Web(tmp_path / "web", {"postgres_dsn": dsn}, port) as web:
            assert web.port != port
    async with Web(tmp_path / "web", {"postgres_dsn": dsn}, port) as web:
        assert web.port == port
