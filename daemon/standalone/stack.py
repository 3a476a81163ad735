"""The servers of standalone: started in order, stopped in reverse, with topics, schema and daemon."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import msgspec

from tidegate.daemon.postgres.migrate import migrate
from tidegate.daemon.settings import DEFAULT_WEB_PORT, Settings, SettingsError
from tidegate.daemon.standalone import jars, record
from tidegate.daemon.standalone.daemon import Daemon
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.keeper import Keeper
from tidegate.daemon.standalone.kept_ports import KeptPorts
from tidegate.daemon.standalone.leftover import end_runners, end_servers
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.daemon.standalone.record import Recorder, Say
from tidegate.daemon.standalone.server import Server
from tidegate.daemon.standalone.spark_connect import SparkConnect
from tidegate.daemon.standalone.web import Web
from tidegate.events import topics
from tidegate.events.security import OPEN
from tidegate.schemas.kafka_security import KafkaSecurity

MB_OF_JARS = 46
NOTIFYING = ("smtp_", "webhook_", "notify_", "callback_")
SERVING = ("web_", "spark_ui_", "producer_", "login_", "oidc_", "proxy_", "editors")
SECURING = tuple(f"kafka_{field}" for field in KafkaSecurity.__struct_fields__)


class Stack(msgspec.Struct, frozen=True):
    """The running servers, their keeper, and their addresses."""

    settings: Mapping[str, str]
    servers: tuple[Server, ...]
    keeper: Keeper
    home: Path
    web: Web

    @property
    def told(self) -> dict[str, str]:
        """The settings for other shells."""
        return record.told(self.settings)

    @property
    def lake(self) -> Path:
        """The folder for the data of the example."""
        return self.home / "lake"


@asynccontextmanager
async def stack(home: Path, given: Settings, say: Say) -> AsyncIterator[Stack]:
    """Start the servers that the settings do not name. Raises ServerError when one does not start."""
    ports, recorder = KeptPorts(home), Recorder(home)
    postgres, kafka = Postgres(home / "postgres"), Kafka(home / "kafka", jars.cache_of(os.environ))
    check_security(given := without_own(given, ports, postgres, kafka))
    keeper = Keeper(ports, recorder, say)
    async with AsyncExitStack() as started:
        await _clean_up(home, say)
        started.callback(record.remove, home)
        recorder.change()
        connect = SparkConnect(home / "spark")
        mine: list[Server] = [connect]
        mine += [] if given.postgres_dsn else [postgres]
        mine += [] if given.kafka_servers else [kafka]
        if kafka in mine:
            _say_downloads(jars.cache_of(os.environ), say)
        await _start(mine, started, keeper)
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
        web = Web(home / "web", {**settings, **to_web(given)}, given.web_port)
        if given.web_port != DEFAULT_WEB_PORT:
            ports.forget(web, given.web_port, say)
        await _start([daemon, web], started, keeper)
        yield Stack(settings, (*mine, daemon, web), keeper, home, web)


def _say_downloads(cache: Path, say: Say) -> None:
    if absent := len(jars.missing(cache, needed := jars.locked())):
        say(f"downloading {absent} jars of Kafka to {cache}, once, about {MB_OF_JARS * absent // len(needed)} MB")


async def _clean_up(home: Path, say: Say) -> None:
    """End what a standalone that was killed has left. Its runners go on: the new daemon finds them in the spool."""
    if former := record.read(home):
        await end_servers(former, say)


def without_own(given: Settings, ports: KeptPorts, postgres: Postgres, kafka: Kafka) -> Settings:
    """The settings without the addresses of these servers themselves, which a shell has from an earlier start."""
    ports.propose(postgres)
    ports.propose(kafka)
    return msgspec.structs.replace(
        given,
        postgres_dsn="" if given.postgres_dsn == postgres.dsn else given.postgres_dsn,
        kafka_servers="" if given.kafka_servers == kafka.bootstrap else given.kafka_servers,
    )


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


def to_web(given: Settings) -> dict[str, str]:
    """The settings of the web page. A Postgres to read from belongs to a given one."""
    chosen = passed_on(given, (*SERVING, *SECURING))
    return chosen if given.postgres_dsn else {**chosen, "web_dsn": ""}


async def _start(servers: Sequence[Server], started: AsyncExitStack, keeper: Keeper) -> None:
    """Start the servers in parallel; when one fails, the others are stopped."""
    for server in servers:
        started.push_async_callback(server.stop)
    async with anyio.create_task_group() as tg:
        for server in servers:
            tg.start_soon(keeper.start, server)
