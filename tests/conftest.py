"""Real servers, started when the first test asks for one and shared by the whole run; and servers of a test's own, to break.

The shared ones live in the loop of their own thread (`portal`), for each test has another loop.
"""

import gc
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import structlog
from anyio.from_thread import BlockingPortal, start_blocking_portal

from tests import (
    class_archive,
    fork_server,
    formatted_storage,
    initialized_cluster,
    order,
    patience,
    servers,
    temporary_folder,
    tracing,
)
from tests.secured_kafka import SecuredKafka
from tests.servers import MARK, MakeSettings, StartKafka, StartPostgres
from tests.shared_servers import KAFKA, SPARK_CONNECT, SharedServers, address_of
from tests.tokens import make_known
from tidegate.daemon.postgres.migrate import migrate
from tidegate.daemon.settings import Settings
from tidegate.daemon.standalone.jars import cache_of
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.daemon.standalone.server import Server, ending

LEFT_BEHIND = pytest.StashKey[list[str]]()
SHARED = pytest.StashKey[SharedServers]()
PLAIN = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
"""Where a test sets no log up. Rich tracebacks take longer than most tests that log one."""


def pytest_configure(config: pytest.Config) -> None:
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], PLAIN])
    temporary_folder.choose()
    class_archive.use(cache_of(os.environ))
    formatted_storage.use(cache_of(os.environ))
    initialized_cluster.use(cache_of(os.environ))
    patience.use()
    config.stash[SHARED] = SharedServers(cache_of(os.environ))


def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    config.stash[SHARED].listen()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files come first, so that no process works alone at the end."""
    long = bool(os.environ.get("TEST_LONG"))
    items.sort(key=lambda item: order.rank(item.path, long=long))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """The garbage collector leaves out the modules and tests: passing over them takes a tenth of the time of short tests."""
    gc.disable()
    tracing.begin(session.config)
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    with tracing.traced(item):
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    with tracing.traced(item):
        return (yield)


def pytest_sessionstart(session: pytest.Session) -> None:
    """The mark of a worker begins with that of the run.

    A shell starts background processes with interrupts ignored, and their children inherit that: the programs must receive them.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ[MARK] = os.environ.get(MARK, "") + uuid4().hex
    os.environ.update(servers.CHEAP_JAVA)
    session.config.stash[LEFT_BEHIND] = []


def pytest_testnodedown(node: Any) -> None:
    """What a worker left behind, unless it crashed: then it is found at the end of the run."""
    node.config.stash[LEFT_BEHIND] += getattr(node, "workeroutput", {}).get("left_behind", [])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process that outlives the tests fails the run, and is ended all the same; a worker has the run told of it."""
    session.config.stash[SHARED].close()
    fork_server.close()
    left = session.config.stash[LEFT_BEHIND] + servers.end_left_behind()
    told: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["left_behind"] = left
        return
    for line in left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        sys.stderr.write(f"\nleft behind: {line}\n")


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="session")
def cache() -> Path:
    """Where downloaded jars are kept from run to run."""
    return cache_of(os.environ)


@pytest.fixture(scope="session")
def postgres(portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The superuser's dsn of the run's Postgres. No test crashes it, so that it never waits for a disk."""
    server = Postgres(tmp_path_factory.mktemp("postgres"), fsync=False)
    with portal.wrap_async_context_manager(server):
        yield server.dsn_of("postgres")
        assert server.process.alive, f"a test ended this Postgres: {ending(server.process)}\n{server.process.tail()}"
    shutil.rmtree(server.home)


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> str:
    """The bootstrap server of the run's Kafka."""
    return address_of(KAFKA, request.config.stash[SHARED])


@pytest.fixture(scope="module")
def secured_kafka(portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[SecuredKafka]:
    """A Kafka with listeners for logins and certificates, which no test breaks."""
    server = SecuredKafka(tmp_path_factory.mktemp("secured"), cache)
    with portal.wrap_async_context_manager(server):
        yield server
    shutil.rmtree(server.home)


@pytest.fixture(scope="session")
def spark_connect(request: pytest.FixtureRequest) -> str:
    """The sc:// url of the run's Spark Connect server."""
    return address_of(SPARK_CONNECT, request.config.stash[SHARED])


@pytest.fixture(scope="session")
def databases(portal: BlockingPortal, postgres: str) -> Iterator[servers.Databases]:
    """The connection that creates and drops the databases of the tests, in the loop of the portal."""
    with portal.wrap_async_context_manager(servers.databases(postgres)) as databases:
        yield databases


@pytest.fixture(scope="session")
def template(portal: BlockingPortal, postgres: str) -> str:
    """The name of a database with every migration applied."""
    name = portal.call(servers.create_database, postgres)
    portal.call(migrate, servers.dsn_of(postgres, name))
    portal.call(make_known, servers.dsn_of(postgres, name))
    return name


@pytest.fixture
def dsn(portal: BlockingPortal, postgres: str, databases: servers.Databases, template: str) -> Iterator[str]:
    """A migrated database of the test's own."""
    name = portal.call(databases.create, template)
    yield servers.dsn_of(postgres, name)
    portal.call(databases.drop, name)


@pytest.fixture
def empty_dsn(portal: BlockingPortal, postgres: str, databases: servers.Databases) -> Iterator[str]:
    """A database of the test's own without any migration."""
    name = portal.call(databases.create)
    yield servers.dsn_of(postgres, name)
    portal.call(databases.drop, name)


@pytest.fixture
def topic_prefix() -> str:
    return f"test-{uuid4().hex[:12]}."


@pytest.fixture
async def kafka(broker: str, topic_prefix: str) -> AsyncIterator[str]:
    """The bootstrap server; topics with the test's prefix are deleted after it."""
    yield broker
    await servers.delete_topics(broker, topic_prefix)


@pytest.fixture
def settings(dsn: str, kafka: str, topic_prefix: str, tmp_path: Path) -> Iterator[MakeSettings]:
    """Make the settings of a daemon of this test; any of them may be given."""
    (tmp_path / "dags").mkdir()

    def make(**given: Any) -> Settings:
        mine: dict[str, Any] = {
            "postgres_dsn": dsn,
            "kafka_servers": kafka,
            "topic_prefix": topic_prefix,
            "topic_partitions": 4,
            "dags_folder": str(tmp_path / "dags"),
            "spool_dir": str(tmp_path / "spool"),
        }
        return Settings(**{**mine, **given})

    yield make
    servers.end_runners(tmp_path / "spool")


@pytest.fixture
async def own_postgres(tmp_path: Path) -> AsyncIterator[StartPostgres]:
    """Start a Postgres that the test may kill and start again; it is stopped in the end."""
    async with AsyncExitStack() as stack:

        async def start() -> Postgres:
            return await stack.enter_async_context(Postgres(_home(tmp_path, Postgres)))

        yield start


@pytest.fixture
async def own_kafka(tmp_path: Path, cache: Path) -> AsyncIterator[StartKafka]:
    """Start a Kafka that the test may kill and start again; it is killed in the end."""
    async with AsyncExitStack() as stack:

        async def start() -> Kafka:
            return await stack.enter_async_context(servers.killed_in_the_end(Kafka(_home(tmp_path, Kafka), cache)))

        yield start


def _home(tmp_path: Path, kind: type[Server]) -> Path:
    return tmp_path / f"{kind.__name__}-{uuid4().hex[:8]}"
