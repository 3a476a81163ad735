"""What earlier versions left in the database is still there, and means the same, after the migrations of this one."""

from importlib.resources import files
from time import perf_counter

import anyio
import asyncpg
import pytest

from tests.integration.engine.world import World, utc
from tests.integration.queries.blocks import Connection
from tidegate.daemon.audit import audit_ledger
from tidegate.daemon.duties.ledger import keep
from tidegate.daemon.postgres import migrate as migrations
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.postgres.migrate import known, migrate

MIGRATIONS = files("tidegate.schemas").joinpath("migrations")
EVENTS_IN_AND_OUT = "0006_events_in_and_out.sql"
LETTER = """
INSERT INTO dead_letter (topic, partition, "offset", headers, value_bytes, reason, message, received_at)
VALUES ('t.x', 0, 17, '[]', 0, 'malformed', 'no value', '2026-01-01Z')
"""
SUBSCRIPTIONS = "0008_subscriptions.sql"
CONSUMER = """
INSERT INTO dag_file (path, digest, parse_duration_s) VALUES ('d.py', 'd', 0);
INSERT INTO dag_version (id, dag_id, number, spec, path, digest, source) VALUES (1, 'd', 1, '{"dag_id": "d"}', 'd.py', 'd', '');
INSERT INTO dag (dag_id, path, version_id) VALUES ('d', 'd.py', 1);
INSERT INTO dataset (uri) VALUES ('s://a');
INSERT INTO dag_schedule_dataset_reference (dag_id, dataset_id) SELECT 'd', id FROM dataset;
INSERT INTO dataset_event (dataset_id, source, event_id, extra, occurred_at) SELECT id, 's', 'e', '{}', now() FROM dataset;
INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id) SELECT 'd', dataset_id, id FROM dataset_event;
"""


async def before(name: str, dsn: str) -> Connection:
    """The database as it was before this migration."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("CREATE TABLE schema_migration (name text PRIMARY KEY, applied_at timestamptz DEFAULT now())")
    for earlier in known():
        if earlier < name:
            await connection.execute(MIGRATIONS.joinpath(earlier).read_text())
            await connection.execute("INSERT INTO schema_migration (name) VALUES ($1)", earlier)
    return connection


async def test_dead_letters_of_earlier_versions_are_open(empty_dsn: str) -> None:
    connection = await before(EVENTS_IN_AND_OUT, empty_dsn)
    await connection.execute(LETTER)

    await migrate(empty_dsn)

    (letter,) = await connection.fetch("SELECT state::text, recorded_at = received_at AS is_dated, replay_of FROM dead_letter")
    await connection.close()
    assert tuple(letter) == ("open", True, None)


async def test_consumers_of_earlier_versions_are_due_what_comes_from_now_on(empty_dsn: str) -> None:
    connection = await before(SUBSCRIPTIONS, empty_dsn)
    await connection.execute(CONSUMER)
    await connection.close()

    await migrate(empty_dsn)

    async with connect(empty_dsn) as database:
        world = World(database, utc(2024, 5, 1))
        await world.updated("s://a")
        report = await audit_ledger(database.ask, 10)
    assert (report.events, report.unproven, report.due, report.wrong) == (2, 1, 1, 0)


LEDGER = "0014_ledger.sql"
EVENT_OF_EARLIER_VERSIONS = """
WITH arrival AS (INSERT INTO dataset_event_arrival DEFAULT VALUES RETURNING id)
INSERT INTO dataset_event (dataset_id, source, event_id, extra, occurred_at, received_at, arrival_id)
SELECT dataset.id, 's', 'e', '{}', now(), now(), arrival.id FROM dataset, arrival
"""


async def test_the_ledger_of_earlier_versions_is_the_first_part_of_the_ledger_in_months(empty_dsn: str) -> None:
    connection = await before(LEDGER, empty_dsn)
    await connection.execute(CONSUMER)
    await connection.execute("DELETE FROM dataset_event; DELETE FROM dataset_dag_run_queue")
    await connection.execute("INSERT INTO dataset_subscription (dataset_id, dag_id) SELECT id, 'd' FROM dataset")
    for _ in range(3):
        await connection.execute(EVENT_OF_EARLIER_VERSIONS)
    await connection.execute(
        "INSERT INTO dataset_dag_run_queue (target_dag_id, dataset_id, dataset_event_id) SELECT 'd', dataset_id, id"
        " FROM dataset_event"
    )
    ids = [id_ for (id_,) in await connection.fetch("SELECT id FROM dataset_event ORDER BY id")]

    await migrate(empty_dsn)

    async with connect(empty_dsn) as database:
        world = World(database, utc(2024, 5, 1))
        await world.updated("s://a")
        await keep(database, 90)
        await world.updated("s://a")
        report = await audit_ledger(database.ask, 10)
    rows = await connection.fetch("SELECT id, tableoid::regclass::text FROM dataset_event ORDER BY id")
    await connection.close()
    first = [(id_, "dataset_event_first") for id_ in (*ids, ids[-1] + 1)]
    assert [tuple(row) for row in rows] == [*first, (2405 * 10**12 + 1, "dataset_event_2405")]
    assert (report.events, report.unproven, report.due, report.wrong) == (5, 0, 5, 0)


async def test_daemons_of_earlier_versions_go_on_in_the_ledger_in_months(empty_dsn: str) -> None:
    """What they say when they write an event, as long as the newer ones are being started beside them."""
    await migrate(empty_dsn)
    async with connect(empty_dsn) as database:
        await keep(database, 90)
        await database.pool.execute("INSERT INTO dataset (uri) VALUES ('s://a')")
        await database.pool.execute(EVENT_OF_EARLIER_VERSIONS)

        await World(database, utc(2024, 5, 1)).updated("s://a")

        rows = await database.pool.fetch(
            "SELECT FROM dataset_event JOIN dataset_event_arrival AS arrival ON arrival.id = arrival_id"
        )
    assert len(rows) == 2


async def test_a_migration_waits_for_who_reads_for_long_and_lets_writers_pass(
    empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await before(LEDGER, empty_dsn)
    await connection.execute(CONSUMER)
    monkeypatch.setattr(migrations, "TRIES", 10_000)
    monkeypatch.setattr(migrations, "PAUSE_S", 0.05)
    monkeypatch.setattr(migrations, "LOCK_TIMEOUT_MS", 100)
    reader = await asyncpg.connect(empty_dsn)
    waited = []

    async with anyio.create_task_group() as tg, reader.transaction():
        await reader.fetch("SELECT FROM dataset_event")
        tg.start_soon(migrate, empty_dsn)
        for _ in range(100):
            began_at = perf_counter()
            await connection.execute(EVENT_OF_EARLIER_VERSIONS)
            waited.append(perf_counter() - began_at)
            await anyio.sleep(0.005)
        is_waiting = await connection.fetchval("SELECT to_regclass('dataset_event_first') IS NULL")

    partition = await connection.fetchval("SELECT to_regclass('dataset_event_first')::text")
    await connection.close()
    await reader.close()
    assert (is_waiting, partition) == (True, "dataset_event_first")
    assert max(waited) < 2
