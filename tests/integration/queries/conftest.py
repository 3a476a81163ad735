"""A migrated database for the tests of a module, where none of them changes anything for good."""

from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest
from anyio.from_thread import BlockingPortal

from tests import servers
from tests.integration.queries.blocks import Connection
from tidegate.daemon.postgres import types
from tidegate.daemon.postgres.database import register_codecs


@pytest.fixture(scope="module")
def schema(portal: BlockingPortal, postgres: str, template: str) -> Iterator[str]:
    """Its dsn."""
    name = portal.call(servers.create_database, postgres, template)
    yield servers.dsn_of(postgres, name)
    portal.call(servers.drop_database, postgres, name)


@pytest.fixture
async def connection(schema: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(schema, connection_class=types.Connection)
    await register_codecs(connection)
    yield connection
    await connection.close()
