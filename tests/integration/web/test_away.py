"""A web process without its database says what is away, and works again once it is back."""

from http import HTTPStatus

import asyncpg
import pytest

from tests.integration.web.conftest import MakeSite, Site
from tidegate.daemon.read_model.logs import LogReader
from tidegate.daemon.web import screen
from tidegate.schemas.error import TooSlowError, UnavailableError
from tidegate.schemas.queries.db import Db

NOWHERE = "postgresql://tidegate@127.0.0.1:1/tidegate"


async def test_without_postgres_requests_say_what_is_away(make_site: MakeSite) -> None:
    async with make_site(postgres_dsn=NOWHERE) as site, site.anonymous() as client:
        api = await client.get("/api/v1/dags", headers={"authorization": "Bearer tdg_a"})
        client.cookies.set(f"tidegate_session_{client.base_url.port}", "tdg_a")
        page = await client.get("/dags")
        login = await client.get("/login")

    assert (api.status_code, api.headers["retry-after"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "5")
    assert api.json()["type"] == "urn:tidegate:problem:unavailable"
    assert page.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    assert "Postgres is not available" in page.text
    assert login.status_code == HTTPStatus.OK


async def test_after_its_connections_are_ended_it_works_again(site: Site, postgres: str) -> None:
    async with site.browser() as client:
        assert (await client.get("/dags")).status_code == HTTPStatus.OK
        admin = await asyncpg.connect(postgres)
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()",
            await site.history.database.pool.fetchval("SELECT current_database()"),
        )
        await admin.close()
        codes = [(await client.get("/dags")).status_code for _ in range(6)]

    assert codes[-1] == HTTPStatus.OK
    assert set(codes) <= {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}


async def test_a_page_of_a_standby_is_read_again_soon(make_site: MakeSite, site: Site, dsn: str) -> None:
    async with make_site(web_dsn=dsn) as of_standby, of_standby.browser() as reader, site.browser() as client:
        pages = [(await each.get("/dags")).text for each in (reader, client)]

    assert [' data-settle="5"' in page for page in pages] == [True, False]


async def test_without_memory_the_server_ends(make_site: MakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd starts it again: what failed in the middle of an allocation is not known."""

    async def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(screen, "require", fail)
    with pytest.raises(MemoryError):
        async with make_site() as site, site.anonymous() as client:
            answer = await client.get("/dags")

    assert answer.status_code == HTTPStatus.INTERNAL_SERVER_ERROR


async def test_the_readers_of_logs_share_the_threads_for_the_spool(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spool that hangs keeps each of them."""
    used: list[object] = []

    async def find(reader: LogReader) -> None:
        used.append(reader._backends)
        raise UnavailableError("the spool hangs")

    monkeypatch.setattr(LogReader, "find", find)
    await site.history.file()
    await site.history.run()
    async with site.browser() as client:
        for path in ("", "?search=a", "/log.txt"):
            await client.get(f"/dags/daily_delays/runs/latest/tasks/join{path}")
        for path in ("log", "log/matches?text=a"):
            await client.get(f"/api/v1/dags/daily_delays/runs/latest/tasks/join/{path}")

    assert used == [site.service.backends] * 5


async def test_a_read_cannot_write(site: Site) -> None:
    async def write(db: Db) -> None:
        await db.execute("DELETE FROM dag")

    with pytest.raises(UnavailableError, match="read-only transaction"):
        await site.service.reader.run(write)


async def test_a_read_that_takes_long_ends(site: Site) -> None:
    async def read(db: Db) -> None:
        await db.execute("SET LOCAL statement_timeout = '50ms'; SELECT pg_sleep(5)")

    timeout = await site.service.reader.pool.fetchval("SHOW statement_timeout")

    assert timeout == "5s"
    with pytest.raises(TooSlowError):
        await site.service.reader.run(read)
