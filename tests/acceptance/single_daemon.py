"""A daemon on servers that its test breaks: what it says, and what it costs meanwhile."""

import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import msgspec
import psutil

from tests.acceptance.command import TIDEGATE, environment
from tests.servers import end_runners
from tests.storms.settings import SETTINGS
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.postgres.migrate import migrate
from tidegate.daemon.request import apply_request
from tidegate.daemon.standalone.process import Child, spawn
from tidegate.events import Publisher, topics
from tidegate.schemas.message import RunRequested

PREFIX = "alone."
STOP_S = 30.0

FILE = """
from tidegate import Dag, Dataset

with Dag("d", schedule=Dataset("s://a", name="A"), mode="each") as dag:
    dag.empty("first") >> dag.empty("last")

with Dag("works") as dag:
    dag.command("work", ["true"])

with Dag("chatters") as dag:
    dag.command("chatter", ["sh", "-c", "head -c 1000000000 /dev/zero"])
"""

RUNS = "SELECT dag_id, run_id, state::text FROM dag_run"


class Footprint(NamedTuple):
    """What a daemon had used, held and said at a moment."""

    cpu_s: float
    rss: int
    files: int
    lines: int


class SingleDaemon:
    """One daemon, the servers that it knows, and its log."""

    def __init__(self, dsn: str, bootstrap: str, prefix: str, child: Child) -> None:
        self.dsn = dsn
        self.bootstrap = bootstrap
        self.prefix = prefix
        self.child = child
        self._process = psutil.Process(child.pid)

    def lines(self) -> Sequence[Mapping[str, Any]]:
        whole, _, _ = self.child.log.read_text().rpartition("\n")  # the last one may still be written
        return [msgspec.json.decode(line, type=dict[str, Any]) for line in whole.splitlines()]

    def said(self, event: str) -> list[str]:
        """Of which servers it said so, in order."""
        return [str(line.get("server", "")) for line in self.lines() if line["event"] == event]

    def footprint(self) -> Footprint:
        times = self._process.cpu_times()
        return Footprint(times.user + times.system, self._process.memory_info().rss, self._process.num_fds(), len(self.lines()))

    async def request(self, dag_id: str, count: int, name: str) -> set[tuple[str, str]]:
        """Runs by hand."""
        run_ids = [f"{name}_{number}" for number in range(count)]
        async with connect(self.dsn) as database:
            for run_id in run_ids:
                await apply_request(database, RunRequested(dag_id=dag_id, run_id=run_id, conf={}))
        return {(dag_id, run_id) for run_id in run_ids}

    async def publish(self, count: int) -> None:
        """Events, each of which makes a run."""
        async with Publisher(self.bootstrap, source="test", topic_prefix=self.prefix) as publisher:
            for _ in range(count):
                await publisher.dataset_updated("s://a")

    async def runs(self) -> Mapping[tuple[str, str], str]:
        db = await asyncpg.connect(self.dsn)
        try:
            return {(row[0], row[1]): row[2] for row in await db.fetch(RUNS)}
        finally:
            await db.close()

    async def has_runs(self, succeeded: int) -> bool:
        """Whether there are this number of runs, and all succeeded."""
        try:
            states = list((await self.runs()).values())
        except (OSError, asyncpg.PostgresError):
            return False
        return states == ["success"] * succeeded

    async def knows_dags(self) -> bool:
        db = await asyncpg.connect(self.dsn)
        try:
            return bool(await db.fetchval("SELECT count(*) = 3 FROM dag"))
        finally:
            await db.close()


async def prepare(dsn: str, bootstrap: str, home: Path, prefix: str = PREFIX) -> None:
    """Schema, topics and a DAG file."""
    await migrate(dsn)
    await topics.create(bootstrap, prefix, 2, 1)
    (home / "dags").mkdir()
    (home / "dags" / "dags.py").write_text(FILE)


@asynccontextmanager
async def single_daemon(
    dsn: str, bootstrap: str, home: Path, prefix: str = PREFIX, **given: object
) -> AsyncIterator[SingleDaemon]:
    """Start it, as it is installed; in the end it is stopped in good order, unless the test did so."""
    settings: dict[str, object] = {
        **SETTINGS,
        "postgres_dsn": dsn,
        "kafka_servers": bootstrap,
        "topic_prefix": prefix,
        "dags_folder": home / "dags",
        "spool_dir": home / "spool",
        **given,
    }
    env = {**environment(), **{f"TIDEGATE_{key.upper()}": str(value) for key, value in settings.items()}}
    child = await spawn((TIDEGATE, "daemon"), log=home / "daemon.log", cwd=home, env=env, on_orphaned=signal.SIGKILL)
    try:
        yield SingleDaemon(dsn, bootstrap, prefix, child)
    finally:
        await child.end(signal.SIGTERM, STOP_S)
        end_runners(Path(str(settings["spool_dir"])))
