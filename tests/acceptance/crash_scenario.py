"""One DAG of one task on real servers, and daemons that are killed one after the other while it runs."""

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias
from uuid import UUID, uuid4

import anyio
import asyncpg
import msgspec
import psutil

from tests import fork_server
from tests.acceptance import pipeline
from tests.servers import create_database, delete_topics, drop_database, dsn_of
from tests.storms import quiescence
from tests.storms.checker import judge
from tests.storms.cluster import Entry
from tests.storms.evidence import gather
from tests.storms.processes import End
from tests.storms.settings import SETTINGS
from tests.storms.storm import PROBES
from tests.waiting import until
from tidegate.daemon.spark.process import end_all, stamped
from tidegate.daemon.standalone.process import Child, descendants, runs
from tidegate.events import Publisher, topics

ROOT = Path(__file__).parents[2]
READY_S = 60.0
LONG_S = 120.0

READY = "SELECT EXISTS (SELECT FROM job WHERE pid = $1) AND EXISTS (SELECT FROM dag)"
ACCEPTED = "SELECT submission_id FROM submission WHERE state = 'accepted' AND try_number = $1"

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class Servers(msgspec.Struct, frozen=True):
    """Those of the test run. `postgres` is the superuser's dsn, `template` a migrated database."""

    postgres: str
    template: str
    kafka: str
    spark_connect: str


class Attempt(msgspec.Struct, frozen=True):
    """`executions` is how often the application itself says that it was started, `rows` how many of its rows there are."""

    try_number: int
    state: str
    executions: int
    rows: int


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the event. `deaths` are the daemons' exit codes, `broken` the invariants of storms that do not hold."""

    deaths: Sequence[int]
    runs: Sequence[str]
    attempts: Sequence[Attempt]
    broken: Mapping[str, Sequence[str]] = {}


@asynccontextmanager
async def open_scenario(servers: Servers, home: Path, backend: str) -> AsyncIterator["CrashScenario"]:
    """A database, topics and folders of its own; afterwards nothing of it runs or stays on the servers."""
    database = await create_database(servers.postgres, servers.template)
    db = await asyncpg.connect(dsn_of(servers.postgres, database))
    scenario = CrashScenario(servers, database, db, home / backend)
    try:
        await scenario.prepare(backend)
        yield scenario
    finally:
        with anyio.CancelScope(shield=True):
            await scenario.clear()
            await db.close()
            await delete_topics(servers.kafka, scenario.prefix)
            await drop_database(servers.postgres, database)


class CrashScenario:
    """One daemon at a time; `journal` is what the application told of itself."""

    def __init__(self, servers: Servers, database: str, db: Connection, home: Path) -> None:
        self.prefix = f"test-{uuid4().hex[:12]}."
        self._servers = servers
        self._dsn = dsn_of(servers.postgres, database)
        self._db = db
        self._home = home
        self._daemon: Child | None = None
        self._ends: list[End] = []
        self._family: list[psutil.Process] = []

    async def prepare(self, backend: str) -> None:
        pipeline.write(self._home, backend)
        await topics.create(self._servers.kafka, self.prefix, 2, 1)
        await self._db.execute(PROBES.read_text())

    async def start(self, die_at: str = "", **settings: object) -> None:
        """Return when it works, and the DAG is known."""
        number = len(self._ends) + 1
        daemon = self._daemon = await fork_server.spawn(
            "tests.storms.daemon",
            ["--die-at", die_at] if die_at else [],
            log=self._home / f"daemon-{number}.log",
            cwd=ROOT,
            env={**os.environ, **self._settings(settings)},
        )
        await until(lambda: self._ready(daemon.pid), READY_S)
        self._family += descendants(daemon.pid)

    async def _ready(self, pid: int) -> bool:
        return bool(await self._db.fetchval(READY, pid))

    def _settings(self, given: Mapping[str, object]) -> dict[str, str]:
        mine = {
            **SETTINGS,
            "postgres_dsn": self._dsn,
            "kafka_servers": self._servers.kafka,
            "spark_remote": self._servers.spark_connect,
            "topic_prefix": self.prefix,
            "dags_folder": self._home / "dags",
            "spool_dir": self._home / "spool",
            "runner_heartbeat_s": 0.2,
            **given,
        }
        return {f"TIDEGATE_{name.upper()}": str(value) for name, value in mine.items()}

    async def give(self, mode: str) -> None:
        """Publish the event that the DAG waits for."""
        async with Publisher(self._servers.kafka, source="test", topic_prefix=self.prefix) as publisher:
            await publisher.dataset_updated("lake://given", {"folder": str(self._home), "mode": mode})

    def kill(self) -> None:
        assert self._daemon is not None
        self._daemon.send_signal(signal.SIGKILL)

    async def death(self) -> None:
        """Return when the daemon has ended, by itself or by a signal."""
        assert self._daemon is not None
        with anyio.fail_after(LONG_S):
            code = await self._daemon.process.wait()
        self._ends.append(End(f"{len(self._ends) + 1}", code, told=True, log=self._daemon.log))
        self._daemon = None

    def journal(self) -> Sequence[Entry]:
        return [msgspec.json.decode(line, type=Entry) for line in self._lines("journal")]

    def _lines(self, name: str) -> Sequence[str]:
        file = self._home / name
        return file.read_text().splitlines() if file.exists() else []

    async def until_working(self, try_number: int = 1, executions: int = 1) -> None:
        """Until the application of this attempt runs, so often at least, and it is recorded that it does."""

        async def works() -> bool:
            stamp = await self._db.fetchval(ACCEPTED, try_number)
            return [entry.stamp for entry in self.journal()].count(str(stamp)) >= executions

        await until(works, LONG_S)

    async def until_seen(self) -> None:
        """Until a daemon has looked at the application, after now."""
        before = await self._seen_at()

        async def again() -> bool:
            return await self._seen_at() != before

        await until(again, LONG_S)

    async def _seen_at(self) -> object:
        return await self._db.fetchval("SELECT heartbeat_at FROM submission")

    async def go(self) -> None:
        """Let the applications that there are come to their end."""
        for id_ in await self._submissions():
            (self._home / f"go-{id_}").touch()

    async def until_nothing_runs(self) -> None:
        """Nothing of the task."""

        async def nothing() -> bool:
            return not [process for id_ in await self._submissions() for process in stamped(id_)]

        await until(nothing, LONG_S)

    async def _submissions(self) -> list[UUID]:
        return [row[0] for row in await self._db.fetch("SELECT submission_id FROM submission")]

    async def story(self) -> Story:
        """Wait until all is done, stop the daemon in good order, and look. Raises TimeoutError when something is left behind."""
        await self.until_nothing_runs()
        await until(lambda: quiescence.at_rest(self._dsn, self._servers.kafka), LONG_S)
        await self._stop()
        await until(self._is_alone, LONG_S)
        verdict = await judge(await gather(self._db, self._servers.kafka, self.prefix, self._home, [], self._ends))
        runs = [row[0] for row in await self._db.fetch("SELECT state FROM dag_run")]
        return Story(
            deaths=[end.code for end in self._ends],
            runs=runs,
            attempts=await self.attempts(),
            broken={name: found for name, found in verdict.violations.items() if found},
        )

    async def attempts(self) -> Sequence[Attempt]:
        """In the order of their numbers."""
        executions = Counter(entry.stamp for entry in self.journal() if entry.what == "accepted")
        rows = Counter(self._lines("rows"))
        found = await self._db.fetch("SELECT try_number, state, submission_id FROM submission ORDER BY try_number")
        return [Attempt(number, state, executions[str(id_)], rows[str(id_)]) for number, state, id_ in found]

    async def forget(self) -> None:
        """As if no daemon had submitted the attempt."""
        await self._db.execute("UPDATE submission SET state = 'intent', owner = NULL, handle = NULL, heartbeat_at = NULL")

    async def _stop(self) -> None:
        assert self._daemon is not None
        self._daemon.send_signal(signal.SIGTERM)
        await self.death()

    async def _is_alone(self) -> bool:
        """Nothing runs of what the daemons started for themselves."""
        return not any(map(runs, self._family))

    async def clear(self) -> None:
        """End every process of the scenario."""
        if self._daemon is not None:
            await self._daemon.end(signal.SIGKILL, 0)
        for id_ in await self._submissions():
            end_all(id_, 0)
