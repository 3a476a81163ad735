"""Databases, topics and left-over processes: what the fixtures in conftest are made of."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import asyncpg
import psutil
from aiokafka.admin import AIOKafkaAdminClient

from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.process import STAMP
from tidegate.daemon.spark.spool import spools
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.daemon.standalone.process import runs
from tidegate.daemon.standalone.server import Server

MakeSettings = Callable[..., Settings]
StartPostgres = Callable[[], Awaitable[Postgres]]
StartKafka = Callable[[], Awaitable[Kafka]]
AnyServer = TypeVar("AnyServer", bound=Server)

MARK = "LC_TEST_SESSION"
"""In the environment of all that a session starts. Runners get it as well: of the daemon's environment they have `LC_*`."""

GRACE_S = 30.0

CHEAP_JAVA = {
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
    "SPARK_CONF_DIR": str(Path(__file__).with_name("spark")),
}
"""No Java of a test lives so long that compiling well pays. Verifying the classes of Spark is a fifth of its start.

Applications, which do not get our environment, are told by Spark.
"""


@asynccontextmanager
async def killed_in_the_end(server: AnyServer) -> AsyncIterator[AnyServer]:
    """Start it. In the end it is killed: a Kafka or a Spark Connect that stops in good order takes a second for it."""
    await server.start()
    try:
        yield server
    finally:
        await server.kill()


async def create_database(server: str, template: str | None = None) -> str:
    """The name of a new database, a copy of the template where one is given."""
    async with databases(server) as its_databases:
        return await its_databases.create(template)


async def drop_database(server: str, name: str) -> None:
    async with databases(server) as its_databases:
        await its_databases.drop(name)


class Databases:
    """Creates and drops databases by one connection. With two more for each test, Postgres works half as long again."""

    def __init__(self, db: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._db = db

    async def create(self, template: str | None = None) -> str:
        """The name of a new database, a copy of the template where one is given."""
        name = f"test_{uuid4().hex}"
        await self._db.execute(f"CREATE DATABASE {name}" + (f" TEMPLATE {template} STRATEGY FILE_COPY" if template else ""))
        return name

    async def drop(self, name: str) -> None:
        await self._db.execute(f"DROP DATABASE {name} WITH (FORCE)")


@asynccontextmanager
async def databases(server: str) -> AsyncIterator[Databases]:
    """By a connection that lasts as long as the block."""
    db = await asyncpg.connect(server)
    try:
        yield Databases(db)
    finally:
        await db.close()


def dsn_of(server: str, database: str) -> str:
    return f"{server.rpartition('/')[0]}/{database}"


async def delete_topics(bootstrap: str, prefix: str) -> None:
    """Thousands of partitions of tests that are over would slow the broker down."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        if topics := [topic for topic in await admin.list_topics() if topic.startswith(prefix)]:
            await admin.delete_topics(topics)
    finally:
        await admin.close()


def end_runners(spool: Path) -> None:
    """Kill the runners that the daemons of a test have left at work, and their tasks: they survive the daemons."""
    ids: set[str] = set()
    with suppress(OSError):  # the test can have spoiled it
        ids.update(str(each.submission_id) for each in spools(spool))
    for process in psutil.process_iter() if ids else ():
        with suppress(psutil.Error, OSError):
            if process.environ().get(STAMP) in ids:
                process.kill()


def end_left_behind() -> list[str]:
    """Kill what this session started, or what those started, that still runs after a moment of grace; say what it was."""
    started = [process for process in psutil.process_iter() if _is_ours(process)]
    psutil.wait_procs([process for process in started if runs(process)], timeout=GRACE_S)
    return [_ended(process) for process in started if runs(process)]


def _ended(process: psutil.Process) -> str:
    try:
        command = " ".join(process.cmdline())
        process.kill()
    except psutil.Error as error:
        return str(error)
    return f"process {process.pid}: {command[:300]}"


def _is_ours(process: psutil.Process) -> bool:
    """A descendant by its parents, or, when those are gone, by the mark in its environment."""
    me = os.getpid()
    try:
        return process.pid != me and (
            any(parent.pid == me for parent in process.parents()) or process.environ().get(MARK, "").startswith(os.environ[MARK])
        )
    except (psutil.Error, OSError):
        return False
