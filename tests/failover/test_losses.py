"""Commits that were acknowledged and that a promoted standby does not have: noticed, told once, and what is done about them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import anyio
import pytest
from structlog.testing import capture_logs

from tests.failover.primary_with_standby import Couple
from tests.servers import StartPostgres
from tidegate.daemon.postgres.commit_loss import CommitLossDetector
from tidegate.daemon.postgres.commit_markers import check_ended_daemons, delete_spent
from tidegate.daemon.postgres.commit_receipts import CommitReceipts
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.postgres.migrate import migrate
from tidegate.schemas.error import UnavailableError
from tidegate.schemas.queries import leases
from tidegate.schemas.queries import losses as queries
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.leases import Job
from tidegate.schemas.queries.losses import Mark

WITHIN_S = 30.0
LOSSES = "SELECT since, until, found_by, timeline FROM commit_loss ORDER BY id"


class Begun(NamedTuple):
    """When a commit had not yet been made: by the server's clock, and as the daemon knows that, which is a lower bound."""

    by_server: datetime
    by_daemon: datetime


class Process:
    """A daemon, as far as it commits."""

    def __init__(self, database: Database, job: Job) -> None:
        self.database = database
        self.job = job

    async def commit(self) -> Begun:
        """Raises UnavailableError."""
        at: datetime = await self.database.autocommit(lambda db: db.connection.fetchval("SELECT clock_timestamp()"))
        begun = Begun(at, self.database.clock.extrapolated())
        await self.database.run(self._beat)
        return begun

    async def _beat(self, db: Db) -> None:
        await leases.renew(db, self.job)

    async def commit_again(self) -> None:
        """As soon as there is a server that takes it."""
        with anyio.fail_after(WITHIN_S):
            while True:
                try:
                    await self.commit()
                except UnavailableError:
                    await anyio.sleep(0.05)
                else:
                    return


@asynccontextmanager
async def process(dsn: str, spool: Path, name: str = "a") -> AsyncIterator[Process]:
    job = Job(uuid4(), name, 1, "test")
    receipts = CommitReceipts(job.id, spool)
    try:
        async with connect(dsn, author=job.id, writer=name, commit_loss=CommitLossDetector(receipts, name)) as database:
            yield Process(database, job)
    finally:
        receipts.close()


async def recorded(couple: Couple) -> list[Any]:
    async with connect(couple.primary.dsn) as database:
        return list(await database.pool.fetch(LOSSES))


def said(logs: Sequence[Any]) -> list[str]:
    return [line["event"] for line in logs if line["event"] in ("commits_lost", "server_took_over")]


async def test_a_loss_is_told_with_a_time_that_has_all_that_was_lost(loose_couple: Couple, tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with process(loose_couple.dsn, tmp_path) as daemon:
            kept = await daemon.commit()
            await loose_couple.caught_up()
            async with loose_couple.held_back():
                lost = [await daemon.commit() for _ in range(3)]
                await loose_couple.fail_over()
            await daemon.commit_again()
            await daemon.commit_again()

    ((since, until, found_by, timeline),) = await recorded(loose_couple)
    assert kept.by_daemon <= since <= lost[0].by_server
    assert lost[-1].by_daemon <= until
    assert (found_by, timeline) == ("a", "00000002")
    assert said(logs) == ["server_took_over", "commits_lost"]


async def test_a_loss_that_several_daemons_find_is_one(loose_couple: Couple, tmp_path: Path) -> None:
    async with process(loose_couple.dsn, tmp_path, "a") as one, process(loose_couple.dsn, tmp_path, "b") as other:
        await one.commit()
        await loose_couple.caught_up()
        async with loose_couple.held_back():
            first = await other.commit()
            await one.commit()
            last = await other.commit()
            await loose_couple.fail_over()
        async with anyio.create_task_group() as tg:
            tg.start_soon(one.commit_again)
            tg.start_soon(other.commit_again)

    ((since, until, _, _),) = await recorded(loose_couple)
    assert since <= first.by_server
    assert last.by_daemon <= until


async def test_a_loss_is_found_by_the_daemon_after_the_one_that_knew(loose_couple: Couple, tmp_path: Path) -> None:
    async with process(loose_couple.dsn, tmp_path, "a") as daemon:
        await daemon.commit()
        await loose_couple.caught_up()
        async with loose_couple.held_back():
            lost = await daemon.commit()
            await loose_couple.fail_over()
    async with process(loose_couple.dsn, tmp_path, "b") as next_one:
        await next_one.commit_again()
        before = await recorded(loose_couple)
        await check_ended_daemons(next_one.database, tmp_path, "b")
        await check_ended_daemons(next_one.database, tmp_path, "b")

    ((since, until, found_by, _),) = await recorded(loose_couple)
    assert since <= lost.by_server
    assert lost.by_daemon <= until
    assert (before, found_by) == ([], "b")


async def test_nothing_is_told_when_nothing_was_lost(loose_couple: Couple, tmp_path: Path) -> None:
    """The standby had everything, although no commit waited for it."""
    with capture_logs() as logs:
        async with process(loose_couple.dsn, tmp_path) as daemon:
            await daemon.commit()
            await loose_couple.caught_up()
            await loose_couple.fail_over()
            await daemon.commit_again()

    assert (await recorded(loose_couple), said(logs)) == ([], ["server_took_over"])


async def test_nothing_is_told_when_the_standby_is_waited_for(couple: Couple, tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with process(couple.dsn, tmp_path) as daemon:
            for _ in range(50):
                await daemon.commit()
            await couple.fail_over()
            await daemon.commit_again()
            await check_ended_daemons(daemon.database, tmp_path, "a")

    assert (await recorded(couple), said(logs)) == ([], ["server_took_over"])


async def test_nothing_is_told_of_a_crash(own_postgres: StartPostgres, tmp_path: Path) -> None:
    server = await own_postgres()
    await migrate(server.dsn)
    with capture_logs() as logs:
        async with process(server.dsn, tmp_path) as daemon:
            for _ in range(50):
                await daemon.commit()
            await server.crash()
            await server.start()
            await daemon.commit_again()
            rows = await daemon.database.pool.fetch(LOSSES)

    assert (rows, said(logs)) == ([], [])


async def test_nothing_is_told_of_what_is_acknowledged_while_a_new_connection_is_looked_at(
    own_postgres: StartPostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await own_postgres()
    await migrate(server.dsn)
    read = queries.marks

    async def read_slowly(connection: Any, daemon: UUID, least: int = 0) -> dict[int, Mark]:
        marks = await read(connection, daemon, least)
        await anyio.sleep(0.2)
        return marks

    async def commit_often(daemon: Process) -> None:
        for _ in range(100):
            await daemon.commit()

    async def hold(daemon: Process) -> None:
        async with daemon.database.pool.acquire():
            await anyio.sleep(0.3)

    with capture_logs() as logs:
        async with process(server.dsn, tmp_path) as daemon:
            await daemon.commit()
            monkeypatch.setattr(queries, "marks", read_slowly)
            async with anyio.create_task_group() as tg:
                tg.start_soon(commit_often, daemon)
                for _ in range(3):
                    tg.start_soon(hold, daemon)

    assert said(logs) == []


async def test_nothing_is_told_of_a_database_that_is_another_one(own_postgres: StartPostgres, tmp_path: Path) -> None:
    """The same address, and made anew."""
    server = await own_postgres()
    await migrate(server.dsn)
    async with process(server.dsn, tmp_path) as daemon:
        await daemon.commit()
    async with connect(server.dsn_of("postgres")) as other:
        await other.pool.execute("DROP DATABASE tidegate WITH (FORCE)")
        await other.pool.execute("CREATE DATABASE tidegate")
    await migrate(server.dsn)
    async with process(server.dsn, tmp_path) as next_one:
        await next_one.commit()
        await check_ended_daemons(next_one.database, tmp_path, "b")
        rows = await next_one.database.pool.fetch(LOSSES)

    # Those of the database before stay for a time: it may be another one with the same spool.
    assert (rows, len(list((tmp_path / "receipts").iterdir()))) == ([], 2)


async def test_a_role_without_any_privilege_of_the_server_can_find_it(loose_couple: Couple, tmp_path: Path) -> None:
    async with connect(loose_couple.primary.dsn) as database:
        await database.pool.execute("CREATE ROLE plain LOGIN")
        await database.pool.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO plain")
        await database.pool.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO plain")
    async with process(loose_couple.dsn.replace("postgres@", "plain@"), tmp_path) as daemon:
        await daemon.commit()
        await loose_couple.caught_up()
        async with loose_couple.held_back():
            await daemon.commit()
            await loose_couple.fail_over()
        await daemon.commit_again()

    assert [row["found_by"] for row in await recorded(loose_couple)] == ["a"]


async def test_marks_that_were_followed_by_others_go(dsn: str, tmp_path: Path) -> None:
    """All but the newest of their connection."""
    async with process(dsn, tmp_path) as daemon:
        for _ in range(20):
            await daemon.commit()
        before = await daemon.database.pool.fetchval("SELECT count(*) FROM commit_mark")
        await delete_spent(daemon.database)
        await daemon.commit()
        after = await daemon.database.pool.fetch("SELECT number FROM commit_mark ORDER BY 1")

    assert before == 20
    assert len(after) == 2
