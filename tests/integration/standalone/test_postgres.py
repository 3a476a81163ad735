"""The Postgres that standalone starts."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest

from tests import initialized_cluster
from tests.servers import StartPostgres
from tests.waiting import until
from tidegate.daemon.standalone.postgres import Postgres, binaries
from tidegate.daemon.standalone.process import ServerError
from tidegate.schemas.queries.sql import named


@pytest.fixture(autouse=True)
def created_by_initdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Postgres, "_fill", initialized_cluster.FILL)


async def ask(server: Postgres, question: str) -> object:
    db = await asyncpg.connect(server.dsn)
    try:
        return await db.fetchval(question)
    finally:
        await db.close()


async def test_committed_rows_survive_a_kill(own_postgres: StartPostgres) -> None:
    server = await own_postgres()
    await ask(server, "CREATE TABLE kept AS SELECT 42 AS answer")

    await server.kill()
    await server.start()

    assert await ask(server, "SELECT answer FROM kept") == 42


async def test_committed_rows_survive_a_crash(own_postgres: StartPostgres) -> None:
    server = await own_postgres()
    await ask(server, "CREATE TABLE kept AS SELECT 42 AS answer")

    await server.crash()
    await server.start()

    assert await ask(server, "SELECT answer FROM kept") == 42


async def test_a_crash_of_one_backend_is_told_from_what_was_before(own_postgres: StartPostgres) -> None:
    """The server goes on with the same start time, and may give ids again that were not flushed."""
    server = await own_postgres()
    for sequence in ("outbox_id_seq", "dataset_event_id_seq"):
        await ask(server, f"CREATE SEQUENCE {sequence}")
    questions = (named("writers.last_of_outbox"), named("writers.last_of_events"))
    before = [await ask(server, question) for question in questions]
    assert before == [await ask(server, question) for question in questions]

    victim = await asyncpg.connect(server.dsn)
    os.kill(victim.get_server_pid(), signal.SIGKILL)
    after: list[object] = []

    async def answers() -> bool:
        with suppress(*Postgres.unanswered):
            after[:] = [await ask(server, question) for question in questions]
        return set(after).isdisjoint(before) and bool(after)

    await until(answers, 60)
    victim.terminate()


async def test_it_keeps_its_port_over_a_restart(own_postgres: StartPostgres) -> None:
    server = await own_postgres()
    before = server.port

    await server.stop()
    await server.start()

    assert server.port == before


async def test_it_writes_to_disk_before_it_answers(own_postgres: StartPostgres) -> None:
    server = await own_postgres()

    assert [await ask(server, f"SHOW {name}") for name in ("fsync", "synchronous_commit", "full_page_writes")] == ["on"] * 3


async def test_a_foreign_postgres_on_the_directory_is_not_disturbed(
    own_postgres: StartPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await own_postgres()
    monkeypatch.setattr("tidegate.daemon.standalone.postgres.FORMER_S", 0.2)
    (server.home / ".lock").unlink()

    with pytest.raises(
        ServerError, match=rf"^another Postgres runs on .*/data \(process {server.pid}\): stop it, or choose another"
    ):
        await Postgres(server.home).start()


async def test_a_lock_whose_number_is_another_program_by_now_does_not_matter(own_postgres: StartPostgres) -> None:
    server = await own_postgres()
    lock = server.home / "data" / "postmaster.pid"
    await server.kill()
    lock.write_text(lock.read_text().replace(str(server.pid), str(os.getpid()), 1))

    await server.start()

    assert await ask(server, "SELECT 1") == 1


async def test_a_cluster_that_was_half_made_is_made_again(tmp_path: Path) -> None:
    half = tmp_path / "data.unfinished"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")

    async with Postgres(tmp_path) as server:
        assert await ask(server, "SELECT 1") == 1


async def test_it_starts_where_only_the_owner_may_enter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "bin").symlink_to(binaries())
    monkeypatch.setattr("tidegate.daemon.standalone.postgres.binaries", lambda: closed / "bin")

    async with Postgres(closed / "home") as server:
        assert await ask(server, "SELECT 1") == 1


async def test_a_start_that_fails_shows_the_end_of_the_log(own_postgres: StartPostgres) -> None:
    server = await own_postgres()
    await server.stop()
    (server.home / "data" / "global" / "pg_control").unlink()

    with pytest.raises(ServerError, match=r"(?s)^Postgres ended with exit code 2 while starting; the end of .*pg_control"):
        await server.start()
