"""Migrations: applied beside daemons that are at work, and refused where they cannot be."""

import re
from importlib.resources import files
from pathlib import Path
from uuid import uuid4

import anyio
import asyncpg
import pytest

from tests.integration.engine.world import World, utc
from tests.waiting import until
from tidegate.daemon.audit import audit_ledger
from tidegate.daemon.duties.ledger import maintain_ledger
from tidegate.daemon.postgres import migrate as migrations
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.postgres.migrate import SchemaError, known, migrate, pending
from tidegate.schemas.error import UnavailableError

NEW_INDEX, END_OF_OLD_INDEX = "0011_days.sql", "0012_days_without_state.sql"
STAGES = "0019_backfill_stages.sql"
CASCADES = """
INSERT INTO dag_run (id, dag_id, version_id, run_id, run_type, state, run_after, state_seq, unfinished)
SELECT n, (ARRAY['a', 'a', 'b'])[n], 1, n, 'manual', 'running', now(), 2, 1 FROM generate_series(1, 3) AS n;
INSERT INTO backfill (
    id, dag_id, version_id, relative_fileloc, origin_code, start_date, end_date, max_active_runs, priority, reprocess, is_reverse,
    outlets, submitted_at, submitted_by, horizon
)
SELECT n, 'a', 1, 'a.py', '', now(), now(), 1, 0, 'none', false, (ARRAY['cascade', 'events'])[n], now(), 'anna', now()
FROM generate_series(1, 2) AS n;
INSERT INTO backfill_date (backfill_id, ordinal, logical_date, state, dag_run_id, reason)
SELECT id, n, now(), (ARRAY['open', 'failed', 'open', 'skipped'])[n]::backfill_date_state, nullif(n, 4), 'x'
FROM backfill, generate_series(1, 4) AS n;
"""
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

    async with anyio.create_task_group() as tg, reader.transaction():
        await reader.fetch("SELECT FROM dataset_event")
        tg.start_soon(migrate, empty_dsn)
        with anyio.fail_after(120):
            for _ in range(100):
                await connection.execute(EVENT)
                await anyio.sleep(0.005)
        was_waiting = await pending(connection)

    left = await pending(connection)
    await connection.close()
    await reader.close()
    assert (was_waiting, left) == ([NEXT], [])


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


async def test_the_dates_of_cascades_that_there_are_are_counted_by_stage(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = known()
    monkeypatch.setattr(migrations, "known", lambda: [name for name in names if name < STAGES])
    await migrate(empty_dsn)
    connection = await asyncpg.connect(empty_dsn)
    await connection.execute(CASCADES)
    monkeypatch.setattr(migrations, "known", lambda: names)

    await migrate(empty_dsn)
    await connection.execute("UPDATE backfill_date SET state = 'success' WHERE state = 'open'")

    rows = await connection.fetch("SELECT backfill_id, dag_id, dates, open, succeeded, failed FROM backfill_stage ORDER BY 1, 2")
    await connection.close()
    assert [tuple(row) for row in rows] == [(1, "a", 2, 0, 1, 1), (1, "b", 1, 0, 1, 0)]


async def test_a_migration_that_waits_for_another_says_for_which(empty_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "LOCKED_PAUSE_S", 0.001)
    monkeypatch.setattr(migrations, "known", list)
    other = await asyncpg.connect(empty_dsn)
    await other.execute("SELECT pg_advisory_lock($1)", migrations.LOCK)
    said: list[str] = []

    async with anyio.create_task_group() as tg:
        tg.start_soon(migrate, empty_dsn, said.append)
        await until(lambda: bool(said), 60)
        made = [await other.fetchval("SELECT to_regclass('schema_migration')") for _ in range(20)]
        await other.close()

    assert made == [None] * 20
    (sentence,) = said
    assert re.match(r"waits for another `tidegate migrate`: session \d+ of Postgres, from 127.0.0.1, since ", sentence)
    assert await migrate(empty_dsn) == []


async def test_of_the_session_of_another_role_a_migration_knows_the_number_alone(
    empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postgres hides the rest."""
    monkeypatch.setattr(migrations, "LOCKED_PAUSE_S", 0.001)
    other, role, said = await asyncpg.connect(empty_dsn), f"other_{uuid4().hex}", list[str]()
    await other.execute(f"CREATE ROLE {role} LOGIN")
    await other.execute("SELECT pg_advisory_lock($1)", migrations.LOCK)
    mine = await asyncpg.connect(empty_dsn, user=role)

    async with anyio.create_task_group() as tg:
        tg.start_soon(migrations._lock, mine, said.append)
        await until(lambda: bool(said), 60)
        await other.execute("SELECT pg_advisory_unlock($1)", migrations.LOCK)
    await mine.close()
    await other.execute(f"DROP ROLE {role}")
    await other.close()

    (sentence,) = said
    assert re.match(r"waits for another `tidegate migrate`: session \d+ of Postgres; if its process is gone, ", sentence)


async def test_a_migration_ends_with_its_process(empty_dsn: str) -> None:
    """It would go on for hours, with its locks, for a result that is undone."""
    mine, other = await migrations._connect(empty_dsn), await asyncpg.connect(empty_dsn)
    pid = mine.get_server_pid()

    async with anyio.create_task_group() as tg:
        tg.start_soon(execute_in_vain, mine, "SELECT pg_sleep(600)")
        while await other.fetchval("SELECT wait_event FROM pg_stat_activity WHERE pid = $1", pid) != "PgSleep":
            await anyio.sleep(0.01)
        mine.terminate()
    with anyio.fail_after(60):
        while await other.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid):
            await anyio.sleep(0.05)

    await other.close()


async def execute_in_vain(connection: "asyncpg.Connection[asyncpg.Record]", statement: str) -> None:
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await connection.execute(statement)


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

    with pytest.raises(SchemaError, match=r"older than each that this version can upgrade: .* create a new database") as refused:
        await migrate(empty_dsn)
    with pytest.raises(SchemaError, match=re.escape(str(refused.value))):
        await pending(connection)

    tables = await connection.fetch("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'")
    await connection.close()
    assert [name for (name,) in tables] == ["schema_migration"]
