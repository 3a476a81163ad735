"""Fresh servers and a daemon as users run it, for one scenario."""

import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGKILL
from time import perf_counter
from typing import TypeAlias

import anyio
import asyncpg
import msgspec

from tests.servers import CHEAP_JAVA
from tidegate.daemon.postgres.migrate import migrate
from tidegate.daemon.standalone import jars
from tidegate.daemon.standalone.daemon import COMMAND, Daemon
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.daemon.standalone.process import spawn
from tidegate.events import topics

ROOT = Path(__file__).parents[2]
LOADED = "SELECT count(*) FROM dag WHERE NOT is_stale"
IN_BALANCE = """
    SELECT bool_and(hands = least($1, leases) AND hands = owners AND largest - smallest <= 1)::integer
    FROM (
        SELECT count(*) AS hands, count(owner) AS owners, sum(owned) AS leases, max(owned) AS largest, min(owned) AS smallest
        FROM (
            SELECT kind, substring(key FROM '^(.*)/') AS topic, owner, count(*) AS owned
            FROM lease
            WHERE NOT halted
            GROUP BY 1, 2, 3
        ) AS hand
        GROUP BY kind, topic
    ) AS of_group
"""


Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Prepare = Callable[[Connection], Awaitable[None]]


async def nothing(_connection: Connection) -> None:
    """The database is measured as it is when new."""


class Bench(msgspec.Struct, frozen=True):
    """The servers, a connection to look with, and the daemon that is measured, with its settings and what starts it."""

    postgres: Postgres
    kafka: Kafka
    daemon: Daemon
    connection: Connection
    settings: Mapping[str, str]
    command: Sequence[str]

    def another(self, name: str) -> Daemon:
        """One more daemon, as if on a host of its own."""
        return Daemon(self.daemon.home.with_name(name), {**self.settings, "host": name}, self.command)

    async def until_balanced(self, daemons: int) -> None:
        """Until this number of daemons have their share of everything."""
        await self.until(IN_BALANCE, 1, daemons, every_s=0.1)

    async def value(self, sql: str, *args: object) -> int:
        """The one number a query gives."""
        return int(await self.connection.fetchval(sql, *args))

    async def until(self, sql: str, least: int, *args: object, every_s: float = 0.002, within_s: float = 300.0) -> float:
        """Look until a count is reached; returns when, by `perf_counter`.

        The clock of a loop counts milliseconds: with less than one, nothing else happens in this program meanwhile.
        """
        with anyio.fail_after(within_s):
            while await self.value(sql, *args) < least:
                if every_s < 0.001:
                    time.sleep(every_s)  # noqa: ASYNC251, on purpose: see above
                else:
                    await anyio.sleep(every_s)
        return perf_counter()


@asynccontextmanager
async def bench(dag_file: str, dags: int, *, instant: bool = False, prepare: Prepare = nothing) -> AsyncIterator[Bench]:
    """Start everything and wait until the daemon knows all `dags` of the file.

    `instant`: tasks end as soon as they are submitted. `prepare` is done to the empty database. The broker lives too shortly for
    what its compiler would take from the same cores to come back: it compiles little.
    """
    os.environ.update(CHEAP_JAVA)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        (home / "dags").mkdir()
        (home / "dags" / "bench.py").write_text(dag_file)
        async with Postgres(home / "postgres") as postgres, Kafka(home / "kafka", jars.cache_of(os.environ)) as kafka:
            await migrate(postgres.dsn)
            await topics.create(kafka.bootstrap, "tidegate.", 12, 1)
            settings = {
                "postgres_dsn": postgres.dsn,
                "kafka_servers": kafka.bootstrap,
                "dags_folder": str(home / "dags"),
                "spool_dir": str(home / "spool"),
                "parse_output_mb": "64",  # for a million edges
            }
            connection = await asyncpg.connect(postgres.dsn)
            try:
                await prepare(connection)
                async with (
                    _command(home, settings, instant=instant) as command,
                    Daemon(home / "daemon", settings, command) as daemon,
                ):
                    ready = Bench(postgres, kafka, daemon, connection, settings, command)
                    await ready.until(LOADED, dags, every_s=0.1)
                    yield ready
            finally:
                await connection.close()


@asynccontextmanager
async def _command(home: Path, settings: Mapping[str, str], *, instant: bool) -> AsyncIterator[Sequence[str]]:
    """What starts a daemon."""
    if not instant:
        yield COMMAND
        return
    address = home / "cluster"
    start = (sys.executable, "-m", "tests.benchmarks.instant", str(address))
    (home / "logs").mkdir()
    log = home / "logs" / "cluster.log"
    cluster = await spawn((*start, settings["kafka_servers"]), log=log, cwd=ROOT, env=os.environ, on_orphaned=SIGKILL)
    try:
        while not address.exists():
            await anyio.sleep(0.05)
        yield ("env", f"PYTHONPATH={ROOT}", *start)
    finally:
        await cluster.end(SIGKILL, 0)


async def repeated(times: int, measure: Callable[[], Awaitable[float]]) -> list[float]:
    """The result of each measurement, after one to warm up."""
    await measure()
    return [await measure() for _ in range(times)]
