"""The database of the simulation: migrated and filed once, under the clock that is moved."""

from pathlib import Path

import asyncpg

from tests.simulation.dags import GROUPS, NARROW
from tests.simulation.kafka import PARTITIONS
from tests.simulation.server import EPOCH, START
from tidegate.daemon.duties.clock import leases as clock_leases
from tidegate.daemon.duties.relay import leases as relay_leases
from tidegate.daemon.engine import Batch, apply
from tidegate.daemon.leases import register
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.postgres.migrate import migrate
from tidegate.schemas.dag import ParsedFile
from tidegate.schemas.message import Message
from tidegate.schemas.queries import installation
from tidegate.schemas.queries.leases import PARTITION, LeaseSpec
from tidegate.schemas.wire.event import Kind

HERE = Path(__file__).parent


async def prepare(dsn: str) -> None:
    """An empty database becomes that of the simulation."""
    db = await asyncpg.connect(dsn)
    name = await db.fetchval("SELECT current_database()")
    await db.execute("ALTER SYSTEM SET autovacuum = off")  # its locks belong to no simulated session
    await db.execute("SELECT pg_reload_conf()")
    await db.execute(f"ALTER DATABASE {name} SET search_path = public, pg_catalog")
    await db.execute("SET search_path = public, pg_catalog")
    await db.execute((HERE / "clock.sql").read_text())
    await db.fetchval("SELECT setval('simulated_time', $1)", int((START - EPOCH).total_seconds() * 1e6))
    await migrate(dsn)
    await db.execute((HERE / "unlogged.sql").read_text())
    await db.execute((HERE / "empty.sql").read_text())
    await db.execute("INSERT INTO pool (name, slots) VALUES ($1, 2)", NARROW)
    await db.close()
    await _file(dsn)


async def _file(dsn: str) -> None:
    partitions = [
        LeaseSpec(PARTITION, f"tidegate.{kind}/{number}", 0)
        for kind in (Kind.DATASET_UPDATED, Kind.TASK_FINISHED)
        for number in range(PARTITIONS)
    ]
    async with connect(dsn) as database:
        await register(database, [*relay_leases(), *clock_leases(), *partitions])
        for name, group in GROUPS.items():
            file = ParsedFile(path=f"{name}.py", digest=name, dags=tuple(group.dags))
            await apply(database, Batch(messages=[Message(body=file, at=START)]))
        await database.autocommit(installation.note_files_read)
