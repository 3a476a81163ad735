"""The servers of standalone: started in order, stopped in reverse, with topics, schema and daemon."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import msgspec

from tidegate.daemon.postgres.migrate import migrate
from tidegate.daemon.settings import Settings, SettingsError
from tidegate.daemon.spark.process import end_all
from tidegate.daemon.spark.spool import spools
from tidegate.daemon.standalone import jars
from tidegate.daemon.standalone.daemon import Daemon
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.daemon.standalone.server import Server
from tidegate.daemon.standalone.spark_connect import SparkConnect
from tidegate.daemon.standalone.web import Web
from tidegate.events import topics
from tidegate.events.security import OPEN
from tidegate.schemas.kafka_security import KafkaSecurity

Say = Callable[[str], None]

RUNNER_GRACE_S = 2.0
NOTIFYING = ("smtp_", "webhook_", "notify_", "callback_")
SECURING = tuple(f"kafka_{field}" for field in KafkaSecurity.__struct_fields__)


class Stack(msgspec.Struct, frozen=True):
    """The running servers and their addresses. Standalone ends when one of `servers` dies."""

    settings: Mapping[str, str]
    servers: tuple[Server, ...]
    home: Path
    web: Web

    @property
    def lake(self) -> Path:
        """The folder for the data of the example."""
        return self.home / "lake"


@asynccontextmanager
async def stack(home: Path, given: Settings, say: Say) -> AsyncIterator[Stack]:
    """Start the servers that the settings do not name. Raises ServerError when one does not start."""
    check_security(given)
    async with AsyncExitStack() as started:
        postgres = Postgres(home / "postgres")
        kafka = Kafka(home / "kafka", jars.cache_of(os.environ))
        connect = SparkConnect(home / "spark")
        mine: list[Server] = [connect]
        mine += [] if given.postgres_dsn else [postgres]
        mine += [] if given.kafka_servers else [kafka]
        await _start(mine, started, say)
        settings = {
            "postgres_dsn": given.postgres_dsn or postgres.dsn,
            "kafka_servers": given.kafka_servers or kafka.bootstrap,
            "spark_remote": connect.url,
            "dags_folder": str(home / "dags"),
            "spool_dir": str(home / "spool"),
            "topic_prefix": given.topic_prefix,
        }
        shape = (given.topic_partitions, given.topic_replication)
        create = partial(topics.create, min_in_sync=given.topic_min_in_sync, security=given.kafka_security)
        await create(settings["kafka_servers"], given.topic_prefix, *shape)
        applied = await migrate(settings["postgres_dsn"])
        say(f"topics and schema are ready ({len(applied)} migrations applied)")
        started.callback(end_runners, home / "spool")
        daemon = Daemon(home / "daemon", {**settings, **passed_on(given)})
        web = Web(home / "web", {**settings, **passed_on(given, SECURING), "editors": given.editors}, given.web_port)
        await _start([daemon, web], started, say)
        yield Stack(settings, (*mine, daemon, web), home, web)


def check_security(given: Settings) -> None:
    """Raises SettingsError for TLS or a login without a Kafka that has it."""
    if given.kafka_security != OPEN and not given.kafka_servers:
        raise SettingsError(
            "TIDEGATE_KAFKA_SECURITY_PROTOCOL is set, but the Kafka that standalone starts has neither TLS nor a login;"
            " unset it, or set TIDEGATE_KAFKA_SERVERS"
        )


def passed_on(given: Settings, prefixes: tuple[str, ...] = (*NOTIFYING, *SECURING)) -> dict[str, str]:
    """The settings with these prefixes. They contain secrets: a process gets only what it uses."""
    chosen = ((name, getattr(given, name)) for name in given.__struct_fields__ if name.startswith(prefixes))
    return {name: str(value) for name, value in chosen}


def end_runners(spool_dir: Path) -> None:
    """End all runners, which survive their daemon by design. Their attempts count as killed."""
    for spool in spools(spool_dir):
        end_all(spool.submission_id, RUNNER_GRACE_S)


async def _start(servers: list[Server], started: AsyncExitStack, say: Say) -> None:
    """Start the servers in parallel; when one fails, the others are stopped."""

    async def one(server: Server) -> None:
        began_at = anyio.current_time()
        await server.start()
        say(f"{server.name} is ready after {anyio.current_time() - began_at:.1f} s")

    for server in servers:
        started.push_async_callback(server.stop)
    async with anyio.create_task_group() as tg:
        for server in servers:
            tg.start_soon(one, server)
