"""Looking at the ledger as the audit does."""

from tests.integration.engine.world import World
from tidegate.daemon.audit import Report, audit_ledger
from tidegate.schemas.conditions.condition import DatasetRef

A, B, C = DatasetRef("s://a"), DatasetRef("s://b"), DatasetRef("s://c")


async def look(world: World, most: int = 100) -> Report:
    return await audit_ledger(world.database.autocommit, most)
