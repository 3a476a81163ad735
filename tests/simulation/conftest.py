"""A server for the simulation alone: its locks must be those of the schedules."""

import shutil
from collections.abc import Iterator

import pytest
from anyio.from_thread import BlockingPortal

from tests.simulation.jobs import Near
from tests.simulation.prepare import prepare


@pytest.fixture(scope="session")
def simulated(portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The dsn of a database that is prepared."""
    server = Near(tmp_path_factory.mktemp("simulated"), fsync=False)
    with portal.wrap_async_context_manager(server):
        portal.call(prepare, server.dsn)
        yield server.near
    shutil.rmtree(server.home)
