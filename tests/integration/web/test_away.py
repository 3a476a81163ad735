"""A web process without its database says what is away, and works again once it is back."""

from http import HTTPStatus

import asyncpg
import pytest

from tests.integration.web.conftest import MakeSite, Site
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
