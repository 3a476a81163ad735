"""Three brokers of one cluster, and topics of a test's own on them with a copy on each."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from anyio.from_thread import BlockingPortal

from tests.acceptance.command import TIDEGATE, Ended, Tidegate, environment, run
from tests.quorum import Quorum
from tests.servers import delete_topics
from tidegate.events import topics

PARTITIONS = 3


class Brokers:
    """They live in another loop, so that many tests can share them."""

    def __init__(self, portal: BlockingPortal, quorum: Quorum) -> None:
        self.quorum = quorum
        self.bootstrap = quorum.bootstrap
        self._portal = portal

    async def start(self, *nodes: int) -> None:
        await self._do(self.quorum.start, nodes)
        await self.quorum.until_in_sync()

    async def kill(self, *nodes: int) -> None:
        await self._do(self.quorum.kill, nodes)

    async def restart(self, node: int) -> None:
        """In good order."""
        await self._do(self.quorum.stop, [node])
        await self.start(node)

    async def mend(self) -> None:
        """All brokers are up and in sync after a test."""
        for member in self.quorum.members.values():
            if member.process.alive:
                self.quorum.thaw(member.node)
        await self.start(*(node for node, member in self.quorum.members.items() if not member.process.alive))

    async def _do(self, act: Callable[..., Awaitable[Any]], *args: Any) -> None:
        await to_thread.run_sync(partial(self._portal.call, act, *args))


@pytest.fixture(scope="module")
def shared(portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Brokers]:
    home = tmp_path_factory.mktemp("quorum")
    quorum = Quorum(home, cache)
    with portal.wrap_async_context_manager(quorum):
        yield Brokers(portal, quorum)
    shutil.rmtree(home)


@pytest.fixture
async def brokers(shared: Brokers, topic_prefix: str) -> AsyncIterator[Brokers]:
    """All are up, with the test's topics; again afterwards."""
    await topics.create(shared.bootstrap, topic_prefix, PARTITIONS, 3)
    await shared.quorum.until_in_sync()
    yield shared
    await shared.mend()
    await delete_topics(shared.bootstrap, topic_prefix)


@pytest.fixture
def tidegate(brokers: Brokers, dsn: str, topic_prefix: str, tmp_path: Path) -> Tidegate:
    """Call the command, which is told of all three brokers."""
    servers = {"POSTGRES_DSN": dsn, "KAFKA_SERVERS": brokers.bootstrap, "TOPIC_PREFIX": topic_prefix}
    env = environment() | {f"TIDEGATE_{name}": value for name, value in servers.items()}

    async def call(*args: str) -> Ended:
        return await run(TIDEGATE, *args, env=env, cwd=tmp_path)

    return call
