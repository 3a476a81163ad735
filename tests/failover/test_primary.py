"""Every connection of the product finds the primary."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
import asyncpg
import pytest

from tests.acceptance.command import TIDEGATE, Ended, environment, run
from tests.failover.primary_with_standby import Couple
from tests.servers import StartPostgres
from tidegate.daemon.gateway.service import open_service
from tidegate.daemon.postgres import database as databases
from tidegate.daemon.postgres import primary as primaries
from tidegate.daemon.postgres.address import servers
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.postgres.migrate import migrate
from tidegate.daemon.settings import Settings
from tidegate.daemon.standalone import port as ports
from tidegate.daemon.standalone.port import LOOPBACK
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.daemon.wake import Signals, listen
from tidegate.daemon.work import Work
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries.db import Db

WITHIN_S = 60.0
READ_ONLY = "ALTER SYSTEM SET default_transaction_read_only = {}"


def dsn_of(*places: int, database: str = "tidegate") -> str:
    return f"postgresql://postgres:hunter2@{','.join(f'{LOOPBACK}:{place}' for place in places)}/{database}"


@asynccontextmanager
async def silent() -> AsyncIterator[int]:
    """The port of a server that accepts each connection and sends nothing."""
    stays = asyncio.Event()

    async def say_nothing(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await stays.wait()
        writer.transport.abort()

    server = await asyncio.start_server(say_nothing, LOOPBACK, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        stays.set()
        server.close()
        await asyncio.sleep(0.05)


@asynccontextmanager
async def closed() -> AsyncIterator[int]:
    """A port without a listener."""
    (port,) = ports.choose(1)
    yield port


async def count(db: Db) -> int:
    return int((await db.fetch("SELECT count(*) FROM pool"))[0][0])


async def is_standby(db: Db) -> bool:
    return bool((await db.fetch("SELECT pg_is_in_recovery()"))[0][0])


async def write(db: Db, name: str = "written") -> None:
    await db.execute("INSERT INTO pool (name, slots) VALUES ($1, 1)", name)


async def tidegate(home: Path, dsn: str, *args: str) -> Ended:
    return await run(TIDEGATE, *args, env=environment() | {"TIDEGATE_POSTGRES_DSN": dsn}, cwd=home)


@pytest.mark.parametrize("other", [silent, closed])
async def test_a_server_that_does_not_answer_hides_no_other(own_postgres: StartPostgres, other: object) -> None:
    server = await own_postgres()
    async with other() as port:  # type: ignore[operator]  # one of the two above
        assert await migrate(dsn_of(port, server.port)) != []
        async with connect(dsn_of(port, server.port)) as database:
            assert await database.run(count) == 1


async def test_the_standby_is_passed_over_and_the_commands_find_the_primary(couple: Couple, tmp_path: Path) -> None:
    dsn = dsn_of(couple.standby.port, couple.primary.port)

    async with open_service(Settings(postgres_dsn=dsn, kafka_servers="", web_dsn=dsn)) as service:
        assert [await of.run(is_standby) for of in (service.reader, service.primary)] == [True, False]
    answers = [
        await tidegate(tmp_path, dsn, *words.split()) for words in ("migrate", "pools set p 3", "pools list", "losses list")
    ]

    assert [answer.code for answer in answers] == [0] * 4, answers
    assert answers[0].out == "the schema is up to date\n"


async def test_who_prefers_a_standby_reads_from_the_primary_if_there_is_none(
    couple: Couple, monkeypatch: pytest.MonkeyPatch
) -> None:
    standby, primary = couple.standby.port, couple.primary.port
    async with silent() as port:
        for places, attributes, expected in (
            ((standby, standby), "", True),
            ((primary, standby), "", True),
            ((port, standby), "", True),
            ((primary, standby), "?target_session_attrs=prefer-standby", True),
            ((primary, standby), "?target_session_attrs=primary", False),
        ):
            async with connect(dsn_of(*places) + attributes, prefers_standby=not attributes) as database:
                assert await database.run(is_standby) == expected, places
        monkeypatch.setattr(primaries, "STANDBY_S", 0.1)
        async with connect(dsn_of(port, primary), prefers_standby=True) as database:
            assert not await database.run(is_standby)
    await couple.standby.stop()
    async with connect(dsn_of(standby, primary), prefers_standby=True) as database:
        assert not await database.run(is_standby)
    await couple.primary.stop()
    async with connect(dsn_of(standby, primary), prefers_standby=True) as database:
        with pytest.raises(UnavailableError, match="no server answers"):
            await database.run(is_standby)


async def test_it_is_said_that_no_server_takes_writes_and_why_without_the_password(couple: Couple, tmp_path: Path) -> None:
    await couple.primary.stop()

    answer = await tidegate(tmp_path, dsn_of(couple.standby.port, couple.primary.port), "pools", "list")

    assert answer.code == 3
    assert answer.err.startswith("tidegate: Postgres is not available: no server takes writes (")
    assert f"{LOOPBACK}:{couple.standby.port}: it does not match target_session_attrs" in answer.err
    assert f"{LOOPBACK}:{couple.primary.port}: " in answer.err
    assert "hunter2" not in answer.err


async def test_servers_that_do_not_let_us_in_are_a_wrong_setting(couple: Couple, tmp_path: Path) -> None:
    answer = await tidegate(tmp_path, dsn_of(couple.standby.port, couple.primary.port, database="no"), "pools", "list")

    assert answer.code == 2
    assert 'database "no" does not exist' in answer.err


async def test_a_listener_goes_on_when_no_server_is_the_primary_for_a_while(
    couple: Couple, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.daemon.wake.RECONNECT_S", 0.1)
    monkeypatch.setattr("tidegate.daemon.wake.CHECK_EVERY_S", 0.1)
    signals = Signals()
    signal = signals.of[Work.ADMIT]
    async with anyio.create_task_group() as tg:
        tg.start_soon(listen, dsn_of(couple.primary.port, couple.standby.port), signals)
        assert await signal.wait(WITHIN_S)

        await couple.primary.crash()
        await anyio.sleep(1.5)
        rang_meanwhile = await signal.wait(0)
        await couple.take_over()

        assert (rang_meanwhile, await signal.wait(WITHIN_S)) == (False, True)
        tg.cancel_scope.cancel()


@pytest.fixture
async def server(own_postgres: StartPostgres) -> Postgres:
    server = await own_postgres()
    await migrate(server.dsn)
    return server


async def set_read_only(server: Postgres, value: str) -> None:
    db = await asyncpg.connect(server.dsn)
    await db.execute("SET default_transaction_read_only = off")
    await db.execute(READ_ONLY.format(value))
    await db.execute("SELECT pg_reload_conf()")
    await db.close()


async def pid_of(database: Database) -> int:
    return await database.run(lambda db: db.connection.fetchval("SELECT pg_backend_pid()"))


async def test_a_server_that_takes_no_writes_any_more_counts_as_away_and_its_connections_are_given_up(server: Postgres) -> None:
    async with connect(server.dsn) as database:
        before = await pid_of(database)
        await set_read_only(server, "on")
        with anyio.fail_after(WITHIN_S):
            while await database.run(lambda db: db.connection.fetchval("SHOW default_transaction_read_only")) == "off":
                await anyio.sleep(0.05)

        with pytest.raises(UnavailableError, match="cannot execute INSERT in a read-only transaction"):
            await database.run(write)

        after = await pid_of(database)
        await set_read_only(server, "off")
        with anyio.fail_after(WITHIN_S):
            while await database.run(lambda db: db.connection.fetchval("SHOW default_transaction_read_only")) == "on":
                await anyio.sleep(0.05)
        await database.run(write)
        assert (before != after, await database.run(count)) == (True, 2)


async def test_a_commit_that_waits_for_its_standby_is_not_seen_when_we_give_up(
    couple: Couple, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked to cancel, Postgres would show it to all sessions as done, though the standby does not have it."""
    monkeypatch.setattr(databases, "TRANSACTION_S", 4.0)
    async with connect(couple.dsn) as database:
        assert await database.run(count) == 1
        async with couple.held_back():
            for way in (database.run, database.autocommit):
                with pytest.raises(UnavailableError):
                    await way(partial(write, name=way.__name__))
            await anyio.sleep(1)
            seen = await database.run(count)
        with anyio.fail_after(WITHIN_S):
            while await database.run(count) != 3:
                await anyio.sleep(0.05)
    assert seen == 1


async def test_a_server_that_is_frozen_holds_up_each_user_once(couple: Couple, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the connections to it is tried after the first has failed."""
    monkeypatch.setattr(databases, "TRANSACTION_S", 6.0)
    async with connect(couple.dsn) as database:
        async with anyio.create_task_group() as tg:
            for _ in range(4):
                tg.start_soon(database.autocommit, lambda db: db.fetch("SELECT pg_sleep(0.3)"))
        async with couple.frozen():
            await couple.take_over()
            with pytest.raises(UnavailableError):
                await database.run(write)
            with anyio.fail_after(databases.TRANSACTION_S - 0.5):
                await database.run(write)

            assert await database.run(count) == 2


async def test_what_was_read_from_one_server_is_not_taken_for_true_on_the_next(couple: Couple) -> None:
    async with connect(couple.dsn) as database:
        await database.run(count)
        database.memory.dataset_ids.remember("s://a", 7)
        await couple.fail_over()
        with anyio.fail_after(WITHIN_S):
            while True:
                with suppress(UnavailableError):
                    await database.run(count)
                    break

        assert database.memory.dataset_ids == {}


def test_servers_are_read_from_the_dsn() -> None:
    dsn = "postgresql://u:p%40x@db-1:5433,[fe80::1]:5434,[::2],db-3/t?target_session_attrs=primary"

    assert list(map(tuple, servers(dsn))) == [("db-1", 5433), ("fe80::1", 5434), ("::2", 5432), ("db-3", 5432)]
