"""Disks that are full: a daemon says which server cannot work and why, waits, and goes on when there is room; nothing is lost."""

from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import asyncpg
import pytest

from tests.acceptance.single_daemon import SingleDaemon, prepare, single_daemon
from tests.disk import Disk, mounted
from tests.waiting import until
from tidegate.daemon.audit import audit_ledger
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.postgres import Postgres

WITHIN_S = 60.0
FULL = "No space left on device"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with mounted(tmp_path / "disk", 300) as disk:
        yield disk


@pytest.fixture
async def cramped(disk: Disk) -> AsyncIterator[Postgres]:
    """A Postgres on the small disk."""
    async with Postgres(disk.path / "postgres") as postgres:
        yield postgres


def reasons(daemon: SingleDaemon, server: str) -> list[str]:
    """Why it said that a server was lost."""
    return [line["error"] for line in daemon.lines() if line["event"] == "server_lost" and line["server"] == server]


async def said_full(daemon: SingleDaemon, server: str) -> bool:
    return any(FULL in reason for reason in reasons(daemon, server))


async def audited(dsn: str) -> tuple[int, int]:
    """Events, and what is wrong with them."""
    async with connect(dsn) as database:
        report = await audit_ledger(database.autocommit, 100)
        return report.events, len(report.findings)


async def test_a_postgres_without_room_for_data_is_waited_for(
    disk: Disk, cramped: Postgres, kafka: str, topic_prefix: str, tmp_path: Path
) -> None:
    await prepare(cramped.dsn, kafka, tmp_path, topic_prefix)
    async with single_daemon(cramped.dsn, kafka, tmp_path, topic_prefix) as daemon:
        await until(daemon.knows_dags, WITHIN_S)
        await daemon.publish(5)
        await until(lambda: daemon.has_runs(5), WITHIN_S)
        disk.fill()
        await daemon.publish(500)
        await until(lambda: said_full(daemon, "Postgres"), WITHIN_S)
        await anyio.sleep(3)
        lines = len(daemon.lines())
        disk.make_room()
        await until_runs(daemon, 505, cramped)

        assert lines < 10
    assert await audited(cramped.dsn) == (505, 0)


async def until_runs(daemon: SingleDaemon, succeeded: int, postgres: Postgres) -> None:
    """Until this number of runs succeeded. A Postgres that ends, rather than to restart by itself, is started."""

    async def there() -> bool:
        if not postgres.process.alive:
            await postgres.start()
        return await daemon.has_runs(succeeded)

    await until(there, WITHIN_S)


async def test_a_postgres_without_room_for_its_journal_ends_and_is_waited_for(
    disk: Disk, cramped: Postgres, kafka: str, topic_prefix: str, tmp_path: Path
) -> None:
    await prepare(cramped.dsn, kafka, tmp_path, topic_prefix)
    async with single_daemon(cramped.dsn, kafka, tmp_path, topic_prefix) as daemon:
        await until(daemon.knows_dags, WITHIN_S)
        disk.fill(leave_mib=1)
        with suppress(OSError, asyncpg.PostgresError):
            await exhaust(cramped)
        await daemon.publish(20)
        await until(lambda: lost(daemon, "Postgres"), WITHIN_S)
        await anyio.sleep(3)
        disk.make_room()
        await until_runs(daemon, 20, cramped)

        assert "PANIC" in cramped.log.read_text()
        assert len(daemon.said("server_lost")) <= 5
    assert await audited(cramped.dsn) == (20, 0)


async def exhaust(postgres: Postgres) -> None:
    """Take segment after segment of the journal."""
    db = await asyncpg.connect(postgres.dsn)
    try:
        for _ in range(50):
            await db.execute("SELECT pg_current_xact_id()")
            await db.execute("SELECT pg_switch_wal()")
    finally:
        db.terminate()


async def lost(daemon: SingleDaemon, server: str) -> bool:
    return server in daemon.said("server_lost")


async def test_a_kafka_without_room_ends_by_itself_and_is_waited_for(disk: Disk, dsn: str, cache: Path, tmp_path: Path) -> None:
    async with Kafka(disk.path / "kafka", cache) as kafka:
        await prepare(dsn, kafka.bootstrap, tmp_path)
        async with single_daemon(dsn, kafka.bootstrap, tmp_path) as daemon:
            await until(daemon.knows_dags, WITHIN_S)
            await daemon.publish(5)
            disk.fill()
            await daemon.request("d", 300, "meanwhile")
            with anyio.fail_after(WITHIN_S):
                await kafka.process.process.wait()
            await until(lambda: lost(daemon, "Kafka"), WITHIN_S)
            disk.make_room()
            await kafka.start()
            await daemon.publish(1)
            await until(lambda: daemon.has_runs(306), WITHIN_S)

            assert daemon.child.alive
            assert daemon.said("server_lost").count("Kafka") <= 3
        assert await audited(dsn) == (6, 0)


async def test_a_spool_without_room_is_said_and_attempts_wait_for_it(
    disk: Disk, dsn: str, kafka: str, topic_prefix: str, tmp_path: Path
) -> None:
    await prepare(dsn, kafka, tmp_path, topic_prefix)
    async with single_daemon(dsn, kafka, tmp_path, topic_prefix, spool_dir=disk.path / "spool") as daemon:
        await until(daemon.knows_dags, WITHIN_S)
        disk.fill()
        await daemon.request("works", 3, "full")
        await until(lambda: said_full(daemon, "the spool"), WITHIN_S)
        await anyio.sleep(2)
        waiting = set((await daemon.runs()).values())
        disk.make_room()
        await until(lambda: daemon.has_runs(3), WITHIN_S)
        await until(lambda: daemon.said("server_back"), WITHIN_S)

        assert waiting == {"running"}
        assert daemon.said("server_lost") == daemon.said("server_back") == ["the spool"]


async def test_a_task_that_fills_the_spool_fails_and_its_end_is_known(
    disk: Disk, dsn: str, kafka: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Its outcome finds no room either, and is told by Kafka alone."""
    await prepare(dsn, kafka, tmp_path, topic_prefix)
    async with single_daemon(dsn, kafka, tmp_path, topic_prefix, spool_dir=disk.path / "spool") as daemon:
        await until(daemon.knows_dags, WITHIN_S)
        await daemon.request("chatters", 1, "full")
        await until(lambda: has_failed(daemon), WITHIN_S)

    assert disk.free() == 0
    assert not list(disk.path.glob("spool/*/outcome.json"))
    assert "exit" in await reason_of_attempt(dsn)


async def has_failed(daemon: SingleDaemon) -> bool:
    return list((await daemon.runs()).values()) == ["failed"]


async def reason_of_attempt(dsn: str) -> str:
    db = await asyncpg.connect(dsn)
    try:
        return str(await db.fetchval("SELECT reason FROM submission"))
    finally:
        await db.close()
