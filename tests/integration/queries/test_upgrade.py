"""What earlier versions left in the database is still there, and means the same, after the migrations of this one."""

from importlib.resources import files

import asyncpg

from tests.integration.engine.world import World, utc
from tests.integration.queries.blocks import Connection
from tidegate.daemon.audit import audit_ledger
from tidegate.daemon.database import connect
from tidegate.daemon.migrate import known, migrate

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
