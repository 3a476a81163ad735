"""Two installations on one Postgres server and one host: a process of one is never taken for a process of the other."""

from collections.abc import AsyncIterator

import pytest

from tests import servers
from tests.integration.engine.chains import command, started
from tests.integration.engine.world import World, utc
from tidegate.daemon.postgres.database import connect


@pytest.fixture
async def other(postgres: str, template: str) -> AsyncIterator[World]:
    """A copy of the same database."""
    name = await servers.create_database(postgres, template)
    async with connect(servers.dsn_of(postgres, name)) as database:
        yield World(database, utc(2024, 5, 1, 12, 10))
    await servers.drop_database(postgres, name)


async def test_the_same_attempt_of_two_installations_has_two_ids(world: World, other: World) -> None:
    ids = set()
    for each in (world, other):
        await started(each, command("a"))
        await each.admit()
        ids |= set(await each.rows("SELECT submission_id FROM submission"))

    assert len(ids) == 2
