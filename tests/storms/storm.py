"""A storm: daemons at work while everything around them breaks; then calm, until they are done; then the verdict."""

import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from random import Random, SystemRandom
from typing import Any, ClassVar

import anyio
import asyncpg
import msgspec

from tests.quorum import Quorum
from tests.storms import quiescence, records
from tests.storms.broker import Broker
from tests.storms.checker import Verdict, judge
from tests.storms.cluster import Script
from tests.storms.continuous_invariants import Watch
from tests.storms.evidence import Evidence, gather
from tests.storms.invariants.secrets import SECRETS, with_secret
from tests.storms.links import Link, PostgresLink
from tests.storms.meddler import FILE, IDS, Meddler, Meddling, Note, draw
from tests.storms.nemesis import Misery, Nemesis
from tests.storms.pipelines import DAGS, FILES, INPUTS, write
from tests.storms.processes import Daemon, start_cluster
from tests.storms.producers import CHUNK, Tally, produce
from tests.storms.records import Planned
from tests.storms.settings import PREFIX, SETTINGS
from tidegate.daemon.postgres.migrate import migrate
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.port import LOOPBACK
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.events import topics
from tidegate.schemas.read_plan import RUN_EVENTS
from tidegate.schemas.wire.event import Kind

SEED = "STORM_SEED"
PROBES = Path(__file__).with_name("probes.sql")
PRODUCERS = 4
READY_S = 120.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent within how many seconds, what goes wrong and what users do meanwhile. `fault` is seeded in every daemon.

    `script` and `settings` change those of the cluster and of the daemons, which also get these `arguments`. `rest_s` is how long
    the daemons may take to come to rest when all is well again.

    `strikes` are what happens to three brokers, one after the other; without any there is one broker.
    Postgres fails over `promotions` times within `send_s`, as far as servers are rebuilt by then.
    `clocks` says of each daemon how wrong its clock is, as `clocks/clock.py` reads it.
    Where there are timed runs, they come for `timed_s`.
    """

    misery: Misery
    meddling: Meddling | None = None
    events: int
    again_share: float = 0.0
    bad: int = 0
    send_s: float
    rest_s: float = 180.0
    daemons: int = 2
    fault: str = ""
    partitions: int = 6
    slots: int = 10
    files: Mapping[str, str] = msgspec.field(default_factory=lambda: FILES)
    dags: int = DAGS
    inputs: int = INPUTS
    script: Mapping[str, Any] = {}
    settings: Mapping[str, object] = {}
    arguments: Sequence[str] = ()
    run_events: int = RUN_EVENTS
    strikes: Sequence[str] = ()
    promotions: int = 0
    clocks: Mapping[str, str] = {}
    timed_s: float = 0.0

    def records(self, random: Random) -> list[Planned]:
        return records.plan(random, self.events, self.again_share, self.bad, self.inputs)


def seed() -> int:
    """The one in the environment, or a new one."""
    return int(os.environ.get(SEED) or SystemRandom().randrange(1_000_000))


def new_home() -> Path:
    """For a storm whose logs stay. Its servers may run as another user."""
    home = Path(tempfile.mkdtemp(prefix="storm-"))
    home.chmod(0o755)
    return home


class Storm:
    """Everything of one storm is below `home`."""

    probes = PROBES
    replication: ClassVar[int] = 1
    at_once: ClassVar[int] = CHUNK

    def __init__(self, plan: Plan, home: Path, cache: Path, seed: int) -> None:
        self.plan = plan
        self.home = home
        self.seed = seed
        self.random = Random(seed)
        self.tally = Tally()
        self.names = [chr(ord("a") + number) for number in range(plan.daemons)]
        self.ways_to_kafka = {f"daemon_{name}": Link(f"{name} to Kafka") for name in self.names if plan.misery.parts}
        self.ways_to_postgres: list[PostgresLink] = []
        self.kafka: Kafka | Quorum = self._open_kafka(cache)
        self.postgres = Postgres(home / "postgres")
        self.daemons: list[Daemon] = []
        self.diary: list[tuple[float, str]] = []

    def _open_kafka(self, cache: Path) -> Kafka | Quorum:
        return Broker(self.home / "kafka", cache, self.ways_to_kafka)

    async def run(self) -> Verdict:
        """Raises TimeoutError when the DAGs do not appear. Daemons that do not come to rest are for the checker to see."""
        async with AsyncExitStack() as stack:
            for link in self.ways_to_kafka.values():
                await stack.enter_async_context(link.open())
            await stack.enter_async_context(self.kafka)
            await stack.enter_async_context(self.postgres)
            await self._prepare()
            cluster = await self._cluster(stack)
            self.daemons = [await self._daemon(name, cluster, stack) for name in self.names]
            async with anyio.create_task_group() as tg:
                for daemon in self.daemons:
                    tg.start_soon(daemon.run)
                await quiescence.until(lambda: quiescence.knows_dags(self.postgres.dsn, self._dags()), READY_S)
                watch = Watch(self.postgres.dsn)
                tg.start_soon(watch.watch)
                await self._rage()
                with suppress(TimeoutError):
                    await quiescence.until(lambda: quiescence.at_rest(self.postgres.dsn, self.kafka.bootstrap), self.plan.rest_s)
                tg.cancel_scope.cancel()
            await watch.look()
            return watch.joined(await self._judge())

    async def _prepare(self) -> None:
        await self._migrate()
        await topics.create(self.kafka.bootstrap, PREFIX, self.plan.partitions, self.replication)
        write(self.home / "dags", self._files())
        db = await asyncpg.connect(self.postgres.dsn)
        try:
            await db.execute(self.probes.read_text())
            await self._set_up(db)
        finally:
            await db.close()

    async def _migrate(self) -> None:
        await migrate(self.postgres.dsn)

    def _files(self) -> Mapping[str, str]:
        changing = {FILE: draw(self.random, orderly=True)} if self.plan.meddling else {}
        return {**self.plan.files, **changing}

    def _dags(self) -> int:
        return self.plan.dags + (len(IDS) if self.plan.meddling else 0)

    async def _set_up(self, db: "asyncpg.Connection[asyncpg.Record]") -> None:
        """Limits, after the probes are in the database."""
        await db.execute("UPDATE pool SET slots = $1", self.plan.slots)

    async def _way_to_postgres(self, name: str, stack: AsyncExitStack) -> PostgresLink | None:
        """None where there is nothing in between."""
        link = PostgresLink(f"{name} to Postgres", self.postgres.dsn, self.random)
        await stack.enter_async_context(link.open())
        self.ways_to_postgres.append(link)
        return link

    async def _cluster(self, stack: AsyncExitStack) -> str:
        script = Script(
            seed=self.seed,
            journal=str(self.home / "journal"),
            ready=str(self.home / "cluster.address"),
            kafka_servers=self.kafka.bootstrap,
            topic_prefix=PREFIX,
            **self.plan.script,
        )
        child, address = await start_cluster(self.home, script)
        stack.push_async_callback(child.end, signal.SIGTERM, 10)
        return address

    async def _daemon(self, name: str, cluster: str, stack: AsyncExitStack) -> Daemon:
        way_to_kafka, way_to_postgres = self.ways_to_kafka.get(f"daemon_{name}"), await self._way_to_postgres(name, stack)
        settings = {
            **SETTINGS,
            **SECRETS,
            "postgres_dsn": with_secret(way_to_postgres.dsn if way_to_postgres else self.postgres.dsn),
            "kafka_servers": f"{LOOPBACK}:{way_to_kafka.port}" if way_to_kafka else self.kafka.bootstrap,
            "dags_folder": self.home / "dags",
            "spool_dir": self.home / "spool",
            "host": f"host-{name}",
            "run_events": self.plan.run_events,
            **self.plan.settings,
        }
        env = {f"TIDEGATE_{key.upper()}": str(value) for key, value in settings.items()}
        arguments = [*(["--cluster", cluster] if cluster else []), *self._arguments(name)]
        links = [way for way in (way_to_kafka, way_to_postgres) if way is not None]
        return Daemon(name, self.home, env, arguments, self.random, links)

    def _arguments(self, _name: str) -> list[str]:
        return [*self.plan.arguments, *(["--fault", self.plan.fault] if self.plan.fault else [])]

    async def _rage(self) -> None:
        """Return when everything is acknowledged and nothing more will break."""
        planned = self.plan.records(self.random)
        nemesis = Nemesis(self.random, self.daemons, self.kafka, self.postgres, self._worth_freezing)
        self.diary = nemesis.diary
        meddler = Meddler(self.random, self.postgres.dsn, self.home / "dags", nemesis.note, self.plan.run_events)
        async with anyio.create_task_group() as tg:
            tg.start_soon(self._strike, nemesis)
            tg.start_soon(self._intrude, nemesis.note)
            if self.plan.meddling:
                tg.start_soon(meddler.meddle, self.plan.meddling)
            for number in range(PRODUCERS):
                tg.start_soon(partial(self._produce, planned[number::PRODUCERS]))
        await self._withdraw()
        if self.plan.meddling:
            await meddler.mend(self._dags())

    async def _intrude(self, note: Note) -> None:
        """What else goes on meanwhile; `_withdraw` puts it in order again."""

    async def _withdraw(self) -> None:
        """Before the daemons come to rest."""

    async def _strike(self, nemesis: Nemesis) -> None:
        await nemesis.rage(self.plan.misery)

    def _worth_freezing(self, _daemon: Daemon) -> bool:
        return True

    async def _produce(self, share: Sequence[Planned]) -> None:
        topic = topics.name(PREFIX, Kind.DATASET_UPDATED)
        await produce(self.kafka.bootstrap, topic, share, self.tally, within_s=self.plan.send_s, at_once=self.at_once)

    async def _judge(self) -> Verdict:
        db = await asyncpg.connect(self.postgres.dsn)
        try:
            ends = [end for daemon in self.daemons for end in daemon.ends]
            return await self._verdict(await gather(db, self.kafka.bootstrap, PREFIX, self.home, self.tally.acknowledged, ends))
        finally:
            await db.close()

    async def _verdict(self, evidence: Evidence) -> Verdict:
        return await judge(evidence)

    def report(self, verdict: Verdict) -> str:
        """What is true nevertheless, then what happened: a reader of the first lines only has what matters."""
        told = [f"{at:7.1f} {what}" for at, what in self.diary]
        sums = (
            f"{sum(link.cuts for link in self.ways_to_postgres):7} commits cut\n{self.tally.unknown:7} acknowledgements missing"
        )
        head = f"storm with {SEED}={self.seed}; the logs are in {self.home}"
        return "\n".join([head, verdict.table(), sums, *told])
