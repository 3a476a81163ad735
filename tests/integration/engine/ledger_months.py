"""The ledger in months, as tests look at it."""

from datetime import datetime

from tests.integration.engine.world import World, utc
from tidegate.daemon.audit import Report, audit_ledger
from tidegate.daemon.duties.ledger import maintain_ledger

DAYS = 90
MAY, AUGUST, NOVEMBER = utc(2024, 5, 1, 12, 10), utc(2024, 8, 30), utc(2024, 11, 30)
"""In August what came in May is older than the retention."""

TABLES = ("dataset_event", "dataset_event_arrival", "discarded_dataset_event", "dagrun_dataset_event")
PARTITIONS = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'dataset_event'::regclass ORDER BY 1"


async def look(world: World) -> tuple[int, int, int]:
    """How many events there are, how many outcomes are due, and how many are wrong."""
    report: Report = await audit_ledger(world.database.autocommit, 10)
    return report.events, report.due, report.wrong


async def sizes(world: World) -> list[int]:
    """How many rows each of the ledger's tables has."""
    return [(await world.rows(f"SELECT count(*) FROM {table}"))[0][0] for table in TABLES]


async def at_a_later(world: World, moment: datetime) -> None:
    """Housekeeping, as a daemon does it then. The clock is not looked at."""
    world.clock.at = moment
    await maintain_ledger(world.database, DAYS)


async def partitions(world: World) -> list[str]:
    return [name for (name,) in await world.rows(PARTITIONS)]
