"""Migrations: applied beside daemons that are at work, and refused where they cannot be."""

from importlib.resources import files
from pathlib import Path
from time import perf_counter

import anyio
import asyncpg
import pytest

from tests.integration.engine.world import World, utc
from tidegate.daemon.audit import audit_ledger
from tidegate.daemon.duties.ledger import maintain_ledger
from tidegate.daemon.postgres import migrate as migrations
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.postgres.migrate import SchemaError, known, migrate, pending
from tidegate.schemas.error import UnavailableError

NEW_INDEX, END_OF_OLD_INDEX = "0011_days.sql", "0012_days_without_state.sql"
NEXT = "9999_next.sql"
EXPANDED = "ALTER TABLE dataset_event ADD COLUMN of_next text; INSERT INTO pool (name, slots) VALUES ('of_next', 1);"
EVENT = """
WITH arrival AS (INSERT INTO dataset_event_arrival DEFAULT VALUES RETURNING id)
INSERT INTO dataset_event (dataset_id, source, event_id, extra, occurred_at, received_at, arrival_id)
SELECT dataset.id, 's', 'e', '{}', now(), now(), arrival.id FROM dataset, arrival
"""


@pytest.fixture
def next_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This build with one more migration."""
    for entry in files("tidegate.schemas").joinpath("migrations").iterdir():
        (tmp_path / entry.name).write_text(entry.read_text())
    (tmp_path / NEXT).write_text(EXPANDED)
    monkeypatch.setattr(migrations, "FOLDER", tmp_path)
    monkeypatch.setattr(migrations, "TRIES", 10_000)
    monkeypatch.setattr(migrations, "PAUSE_S", 0.05)
    monkeypatch.setattr(migrations, "LOCK_TIMEOUT_MS", 100)


async def test_events_before_the_first_month_are_the_first_part_of_the_ledger(empty_dsn: str) -> None:
    await migrate(empty_dsn)
    async with connect(empty_dsn) as database:
        world = World(database, utc(2024, 5, 1))
        await world.updated("s://a")
        await maintain_ledger(database, 90)
        await world.updated("s://a")

        rows = await database.pool.fetch("SELECT id, tableoid::regclass::text FROM dataset_event ORDER BY id")
        report = await audit_ledger(database.autocommit, 10)

    assert [tuple(row) for row in rows] == [(1, "dataset_event_first"), (2405 * 10**12 + 1, "dataset_event_2405")]
    assert (report.events, report.unproven, report.wrong) == (2, 0, 0)


async def test_a_migration_waits_for_long_readers_and_lets_writers_pass(
    empty_dsn: str, next_build: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as this_build:
        this_build.setattr(migrations, "known", lambda: [name for name in known() if name != NEXT])
        await migrate(empty_dsn)
    connection = await asyncpg.connect(empty_dsn)
    await connection.execute("INSERT INTO dataset (uri) VALUES ('s://a')")
    reader = await asyncpg.connect(empty_dsn)
    waited = []

    async with anyio.create_task_group() as tg, reader.transaction():
        await reader.fetch("SELECT FROM dataset_event")
        tg.start_soon(migrate, empty_dsn)
        for _ in range(100):
            began_at = perf_counter()
            await connection.execute(EVENT)
            waited.append(perf_counter() - began_at)
            await anyio.sleep(0.005)
        was_waiting = await pending(connection)

    left = await pending(connection)
    await connection.close()
    await reader.close()
    assert (was_waiting, left) == ([NEXT], [])
    assert max(waited) < 2


async def test_an_index_that_was_built_stays_while_a_reader_holds_up_the_end_of_its_predecessor(
    empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "TRIES", 1)
    monkeypatch.setattr(migrations, "LOCK_TIMEOUT_MS", 50)
    names = [name for name in known() if name <= END_OF_OLD_INDEX]
    monkeypatch.setattr(migrations, "known", lambda: names[:-2])
    await migrate(empty_dsn)
    monkeypatch.setattr(migrations, "known", lambda: names)
    reader = await asyncpg.connect(empty_dsn)

    async with reader.transaction():
        await reader.fetch("SELECT FROM dag_run")
        with pytest.raises(UnavailableError, match=f"migration {END_OF_OLD_INDEX} waits for a lock"):
            await migrate(empty_dsn)
    left, applied = await pending(reader), await migrate(empty_dsn)

    await reader.close()
    assert (names[-2], left, applied) == (NEW_INDEX, [END_OF_OLD_INDEX], [END_OF_OLD_INDEX])


async def test_a_failed_migration_leaves_nothing(empty_dsn: str, next_build: None, tmp_path: Path) -> None:
    (tmp_path / NEXT).write_text(f"{EXPANDED} SELECT 1 / 0;")

    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(empty_dsn)

    connection = await asyncpg.connect(empty_dsn)
    left, pools = await pending(connection), await connection.fetch("SELECT name FROM pool")
    await connection.close()
    assert (left, [name for (name,) in pools]) == ([NEXT], ["default_pool"])


async def test_a_database_of_a_development_build_is_refused_and_left_as_it_is(empty_dsn: str) -> None:
    connection = await asyncpg.connect(empty_dsn)
    await connection.execute("CREATE TABLE schema_migration (name text PRIMARY KEY, applied_at timestamptz DEFAULT now())")
    await connection.execute("INSERT INTO schema_migration (name) VALUES ('0001_init.sql'), ('0020_live_jobs.sql')")

    with pytest.raises(SchemaError, match="never released, and cannot be upgraded; create a new database") as refused:
        await migrate(empty_dsn)
    with pytest.raises(SchemaError, match=str(refused.value)):
        await pending(connection)

    tables = await connection.fetch("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'")
    await connection.close()
    assert [name for (name,) in tables] == ["schema_migration"]
