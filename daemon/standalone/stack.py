"""The servers of standalone: started in order, stopped in reverse, with topics, schema and daemon."""

import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import msgspec

from tidegate.daemon.postgres.migrate import migrate
from tidegate.daemon.settings import DEFAULT_WEB_PORT, Settings, SettingsError, dags_root
from tidegate.daemon.standalone import jars, record
from tidegate.daemon.standalone.daemon import Daemon
from tidegate.daemon.standalone.example import pipelines
from tidegate.daemon.standalone.handed_on import chosen_in, to_daemon, to_shells, to_web, unused
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.keeper import Keeper
from tidegate.daemon.standalone.kept_ports import KeptPorts
from tidegate.daemon.standalone.leftover import end_runners, end_servers
from tidegate.daemon.standalone.port import LOOPBACK
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.daemon.standalone.process import ServerError
from tidegate.daemon.standalone.record import Recorder, Say
from tidegate.daemon.standalone.server import Server
from tidegate.daemon.standalone.spark_connect import SparkConnect
from tidegate.daemon.standalone.web import Web
from tidegate.events import topics
from tidegate.events.security import PLAINTEXT

MB_OF_JARS = 46


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
        """The folder for the data of the example, where its DAG files look for them: beside the folder that a link leads to."""
        return Path(self.settings["dags_folder"]).resolve().parent / "lake"

    @property
    def obstacle(self) -> str:
        """Why the example cannot run; empty if it can."""
        return obstacle(self.home, Path(self.settings["dags_folder"]))


def own_dags(home: Path) -> Path:
    """The DAG folder of a standalone for which none is set."""
    return home / "dags"


def obstacle(home: Path, dags: Path) -> str:
    """Why the example cannot run with this DAG folder; empty if it can."""
    if dags != own_dags(home):
        return "TIDEGATE_DAGS_FOLDER is set"
    lacking = pipelines.absent(dags)
    return f"{dags} has no {', no '.join(lacking)}" if lacking else ""


@asynccontextmanager
async def stack(home: Path, given: Settings, say: Say) -> AsyncIterator[Stack]:
    """Start the servers that the settings do not name. Raises ServerError when one, or the DAG folder, does not work."""
    ports, recorder = KeptPorts(home), Recorder(home)
    postgres, kafka = Postgres(home / "postgres"), Kafka(home / "kafka", jars.cache_of(os.environ))
    check_security(given := without_own(given, ports, postgres, kafka))
    keeper = Keeper(ports, recorder, say)
    create_folder(dags_root(given))
    async with AsyncExitStack() as started:
        await _clean_up(home, say)
        started.callback(record.remove, home)
        recorder.change()
        record.enlist(home, jars.cache_of(os.environ))
        connect = SparkConnect(home / "spark")
        mine: list[Server] = [connect]
        mine += [] if given.postgres_dsn else [postgres]
        mine += [] if given.kafka_servers else [kafka]
        if kafka in mine:
            _say_downloads(jars.cache_of(os.environ), say)
        await _start(mine, started, keeper)
        chosen = chosen_in(os.environ)
        settings = {
            "postgres_dsn": given.postgres_dsn or postgres.dsn,
            "kafka_servers": given.kafka_servers or kafka.bootstrap,
            "spark_remote": connect.url,
            "dags_folder": str(dags_root(given)),
            "spool_dir": str(home / "spool"),
            "host": socket.gethostname(),
            "topic_prefix": given.topic_prefix,
            **to_shells(given, chosen),
        }
        shape = (given.topic_partitions, given.topic_replication)
        create = partial(topics.create, min_in_sync=given.topic_min_in_sync, security=given.kafka_security)
        await create(settings["kafka_servers"], given.topic_prefix, *shape)
        applied = await migrate(settings["postgres_dsn"], say)
        say(f"topics and schema are ready ({len(applied)} migrations applied)")
        started.callback(end_runners, home / "spool")
        if line := unused(given, decided(settings, given), chosen):
            say(line)
        daemon = Daemon(home / "daemon", {**settings, **to_daemon(given)})
        web = Web(home / "web", {**settings, **to_web(given)}, given.web_port)
        if given.web_port != DEFAULT_WEB_PORT:
            ports.forget(web, given.web_port, say)
        await _start([daemon, web], started, keeper)
        yield Stack(settings, (*mine, daemon, web), keeper, home, web)


def decided(settings: Mapping[str, str], given: Settings) -> dict[str, str]:
    """The settings of which standalone uses no other value than these."""
    own = {**{name: settings[name] for name in ("spark_remote", "spool_dir", "host")}, "web_host": LOOPBACK}
    return own if given.postgres_dsn else {**own, "web_dsn": ""}


def create_folder(dags: Path) -> None:
    """Create the DAG folder. Raises ServerError."""
    try:
        dags.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ServerError(f"the DAG folder {dags} cannot be created: {error.strerror}; set TIDEGATE_DAGS_FOLDER") from error


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
    if given.kafka_security != PLAINTEXT and not given.kafka_servers:
        raise SettingsError(
            "TIDEGATE_KAFKA_SECURITY_PROTOCOL is set, but the Kafka that standalone starts has neither TLS nor a login;"
            " unset it, or set TIDEGATE_KAFKA_SERVERS"
        )


async def _start(servers: Sequence[Server], started: AsyncExitStack, keeper: Keeper) -> None:
    """Start the servers in parallel; when one fails, the others are stopped."""
    for server in servers:
        started.push_async_callback(server.stop)
    async with anyio.create_task_group() as tg:
        for server in servers:
            tg.start_soon(keeper.start, server)
