"""What earlier versions left in the database is still there, and means the same, after the migrations of this one."""

from importlib.resources import files

import asyncpg

from tidegate.daemon.migrate import known, migrate

MIGRATIONS = files("tidegate.schemas").joinpath("migrations")
EVENTS_IN_AND_OUT = "0006_events_in_and_out.sql"
LETTER = """
INSERT INTO dead_letter (topic, partition, "offset", headers, value_bytes, reason, message, received_at)
VALUES ('t.x', 0, 17, '[]', 0, 'malformed', 'no value', '2026-01-01Z')
"""


async def test_dead_letters_of_earlier_versions_are_open(empty_dsn: str) -> None:
    connection = await asyncpg.connect(empty_dsn)
    await connection.execute("CREATE TABLE schema_migration (name text PRIMARY KEY, applied_at timestamptz DEFAULT now())")
    for name in known():
        if name < EVENTS_IN_AND_OUT:
            await connection.execute(MIGRATIONS.joinpath(name).read_text())
            await connection.execute("INSERT INTO schema_migration (name) VALUES ($1)", name)
    await connection.execute(LETTER)

    await migrate(empty_dsn)

    (letter,) = await connection.fetch("SELECT state::text, recorded_at = received_at AS is_dated, replay_of FROM dead_letter")
    await connection.close()
    assert tuple(letter) == ("open", True, None)
