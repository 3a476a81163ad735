"""What a load balancer is told of a web process."""

import anyio
import asyncpg
import httpx
import pytest

from tests.integration.web.conftest import PATIENCE_S, MakeSite, Site
from tidegate.daemon.web import health

NOWHERE = "postgresql://tidegate@127.0.0.1:1/tidegate"
QUESTIONS = "SELECT pid FROM pg_locks WHERE relation = 'schema_migration'::regclass AND NOT granted"
BY_ITS_ADDRESS = {"host": "10.0.0.7:8780"}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Postgres is there, however late this process gets to its answer."""
    monkeypatch.setattr(health, "WITHIN_S", PATIENCE_S)


async def ask(site: Site, **headers: str) -> tuple[int, object]:
    async with site.anonymous() as client:
        answer = await client.get("/health", headers=headers)
    return answer.status_code, answer.json()


async def test_ready_for_all_who_ask_by_any_address(site: Site) -> None:
    assert await ask(site, **BY_ITS_ADDRESS) == (httpx.codes.OK, {"status": "ready"})


async def test_no_other_path_is_answered_for_another_host(site: Site) -> None:
    async with site.anonymous(headers=BY_ITS_ADDRESS) as client:
        answers = [await client.get(path) for path in ("/health/", "/login", "/api/v1/openapi.json")]

    assert {answer.status_code for answer in answers} == {httpx.codes.BAD_REQUEST}


async def test_without_postgres_it_is_away(make_site: MakeSite) -> None:
    async with make_site(postgres_dsn=NOWHERE) as site:
        assert await ask(site) == (httpx.codes.SERVICE_UNAVAILABLE, {"status": "away"})


async def test_while_postgres_hangs_it_is_away(site: Site, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is locked stands for a server that hangs. The first question still waits when two callers are answered."""
    monkeypatch.setattr(health, "WITHIN_S", 0.1)
    other = await asyncpg.connect(dsn)
    async with other.transaction():
        await other.execute("LOCK TABLE schema_migration")
        first = await ask(site), await other.fetch(QUESTIONS)
        second = await ask(site), await other.fetch(QUESTIONS)
    await other.close()

    answer, questions = first
    assert answer == (httpx.codes.SERVICE_UNAVAILABLE, {"status": "away"})
    assert len(questions) == 1
    assert second == first


async def test_before_the_migration_of_its_version_it_is_outdated(site: Site) -> None:
    await site.history.database.pool.execute("DELETE FROM schema_migration WHERE name = (SELECT max(name) FROM schema_migration)")

    assert await ask(site) == (httpx.codes.SERVICE_UNAVAILABLE, {"status": "outdated"})


async def test_after_the_migration_of_a_newer_version_it_is_ready(site: Site) -> None:
    await site.history.database.pool.execute("INSERT INTO schema_migration (name) VALUES ('9999_newer.sql')")

    assert await ask(site) == (httpx.codes.OK, {"status": "ready"})


async def test_many_who_ask_at_once_are_all_answered(site: Site) -> None:
    found: list[tuple[int, object]] = []

    async def one() -> None:
        found.append(await ask(site))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(one)

    assert found == [(httpx.codes.OK, {"status": "ready"})] * 20
