"""Fresh servers and a daemon as users run it, for one scenario."""

import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

import anyio
import asyncpg
import msgspec

from tidegate.daemon.migrate import migrate
from tidegate.daemon.standalone import jars
from tidegate.daemon.standalone.daemon import Daemon
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.events import topics

LOADED = "SELECT count(*) FROM dag WHERE NOT is_stale"


class Bench(msgspec.Struct, frozen=True):
    """The servers, a connection to look with, and the daemon that is measured."""

    postgres: Postgres
    kafka: Kafka
    daemon: Daemon
    connection: "asyncpg.Connection[asyncpg.Record]"

    async def value(self, sql: str, *args: object) -> int:
        """The one number a query gives."""
        return int(await self.connection.fetchval(sql, *args))

    async def until(self, sql: str, least: int, *args: object, every_s: float = 0.002, within_s: float = 300.0) -> float:
        """Look until a count is reached; returns when, by `perf_counter`: the clock of a loop counts milliseconds."""
        with anyio.fail_after(within_s):
            while await self.value(sql, *args) < least:
                await anyio.sleep(every_s)
        return perf_counter()


@asynccontextmanager
async def bench(dag_file: str, dags: int) -> AsyncIterator[Bench]:
    """Start everything and wait until the daemon knows all `dags` of the file."""
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
            }
            connection = await asyncpg.connect(postgres.dsn)
            try:
                async with Daemon(home / "daemon", settings) as daemon:
                    ready = Bench(postgres, kafka, daemon, connection)
                    await ready.until(LOADED, dags, every_s=0.1)
                    yield ready
            finally:
                await connection.close()


async def repeated(times: int, measure: Callable[[], Awaitable[float]]) -> list[float]:
    """The results of so many measurements, after one to warm up."""
    await measure()
    return [await measure() for _ in range(times)]
