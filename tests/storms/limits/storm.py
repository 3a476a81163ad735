"""A storm over pools and limits: a crowd of DAGs, two daemons that are killed at random, and a database that counts."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import anyio
import asyncpg
import msgspec
from msgspec.structs import replace

from tests.storms.checker import Verdict
from tests.storms.limits.checker import Bounds, judge, waited
from tests.storms.limits.crowd import LIMITLESS, LOWERED, POOLS, Crowd, Shape, Wanted, crowd, uri
from tests.storms.limits.replay import FAIR_EVERY
from tests.storms.links import PostgresLink
from tests.storms.nemesis import Nemesis
from tests.storms.producers import produce
from tests.storms.records import Planned, event
from tests.storms.settings import PREFIX
from tests.storms.storm import Plan, Storm
from tidegate.daemon.postgres.database import Database, connect
from tidegate.daemon.request import apply_request, notify_daemons
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.daemon.work import Work
from tidegate.events import topics
from tidegate.schemas.message import RunRequested
from tidegate.schemas.queries import pools
from tidegate.schemas.queries.db import Db
from tidegate.schemas.wire.event import Kind

FAIR_AFTER_S = 2.0
SETTINGS: Mapping[str, object] = {
    "fair_after_s": FAIR_AFTER_S,
    "dispatch_concurrency": 64,
    "dags_scan_s": 60,
    "pool_connections": 8,
}
SCRIPT: Mapping[str, object] = {
    "accept_s": (0.0, 0.002),
    "slow_share": 0.0,
    "request_lost_share": 0.001,
    "answer_lost_share": 0.001,
    "untold_share": 0.01,
    "unknown_share": 0.0,
    "run_s": (0.0, 0.01),
    "fail_share": 0.01,
}
"""An instant cluster: only the journal and the connection take time."""

REQUESTERS = 2
STARTING_S = 6.0
"""About how long it takes until the daemons know the DAGs, from when their files are written."""


LOWERED_S = 2.0
"""The pool has fewer slots for at least this long."""

FULL = """
    SELECT (SELECT count(*) FROM occupying_task) >= $1 AND count(*) > 1 AND min(scheduled_at) < now() - make_interval(secs => $3)
    FROM task_instance WHERE pool = $2 AND state = 'scheduled'
"""
TAKEN = "SELECT coalesce(sum(pool_slots), 0) FROM occupying_task WHERE pool = $1"
ROOM = 2 * FAIR_EVERY
"""How many tasks end at a time when others have all the places that the lowered pool is to get."""


class LimitsPlan(Plan, frozen=True, kw_only=True):
    """`shape` is that of the crowd. `lowered`: the part of the sending time in which one pool has fewer slots.

    `idle_s`: how long a task may wait beside free slots while a daemon is at work. `fills`: how often the installation is kept at
    its parallelism until tasks of a pool without limit wait.
    """

    shape: Shape
    lowered: tuple[float, float] = (0.2, 0.7)
    parallelism: int = 48
    idle_s: float = 5.0
    fills: int = 0


class LimitsStorm(Storm):
    """A storm without proxies to Postgres, which is not crashed."""

    probes = Path(__file__).with_name("probes.sql")
    plan: LimitsPlan

    def __init__(self, plan: LimitsPlan, home: Path, cache: Path, seed: int) -> None:
        settings = {**plan.settings, "parallelism": plan.parallelism}
        super().__init__(replace(plan, settings=settings), home, cache, seed)
        self.postgres = Postgres(home / "postgres", fsync=False)
        self.crowd = Crowd({}, ())
        self.cluster = ""
        self.waited = ""

    def _files(self) -> Mapping[str, str]:
        begin = datetime.now(UTC) + timedelta(seconds=STARTING_S)
        self.crowd = crowd(self.random, self.plan.shape, begin, timedelta(seconds=self.plan.send_s))
        return self.crowd.files

    async def _set_up(self, db: "asyncpg.Connection[asyncpg.Record]") -> None:
        sql = "INSERT INTO pool (name, slots) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET slots = excluded.slots"
        await db.executemany(sql, list(POOLS.items()))
        await db.execute("INSERT INTO limits_setting VALUES ($1)", self.plan.parallelism)

    async def _way_to_postgres(self, _name: str, _stack: AsyncExitStack) -> PostgresLink | None:
        return None

    async def _cluster(self, stack: AsyncExitStack) -> str:
        self.cluster = await super()._cluster(stack)
        return self.cluster

    async def _rage(self) -> None:
        nemesis = Nemesis(self.random, self.daemons, self.kafka, self.postgres)
        self.diary = nemesis.diary
        requests = [(each.dag_id, f"asked_{n}") for each in self.crowd.wanted for n in range(each.requests)]
        self.random.shuffle(requests)
        async with connect(self.postgres.dsn) as database, anyio.create_task_group() as tg:
            tg.start_soon(nemesis.rage, self.plan.misery)
            tg.start_soon(self._produce, events(self.crowd.wanted, self.random, self.plan.send_s))
            tg.start_soon(self._lower, database)
            for number in range(REQUESTERS):
                tg.start_soon(self._request, database, requests[number::REQUESTERS])

    async def _produce(self, share: Sequence[Planned]) -> None:
        topic = topics.name(PREFIX, Kind.DATASET_UPDATED)
        await produce(self.kafka.bootstrap, topic, share, self.tally, within_s=self.plan.send_s)

    async def _request(self, database: Database, requests: Sequence[tuple[str, str]]) -> None:
        """Evenly over the time."""
        begin = anyio.current_time()
        for number, (dag_id, run_id) in enumerate(requests):
            await anyio.sleep_until(begin + self.plan.send_s * number / len(requests))
            await apply_request(database, RunRequested(dag_id=dag_id, run_id=run_id, conf={}))

    async def _lower(self, database: Database) -> None:
        """As an operator would: fewer slots once more than those are taken, and later as many as before.

        On a slow machine the pool fills late: what was sent then has to be worked off.
        """
        pool, slots = LOWERED
        begin = anyio.current_time()
        lower_at, raise_at = (begin + self.plan.send_s * share for share in self.plan.lowered)
        await anyio.sleep_until(lower_at)
        if self.plan.fills:
            await self._hold(0)
        with anyio.move_on_after(max(2 * self.plan.send_s, self.plan.rest_s)) as limit:
            await self._until_taken(database, pool, slots)
            self.diary.append((anyio.current_time() - begin, f"{pool} has {slots} slots"))
            await self._fill(database)
            self.diary.append(
                (anyio.current_time() - begin, f"{self.plan.fills} times {self.plan.parallelism} tasks were active")
            )
        if limit.cancelled_caught:
            self.diary.append((anyio.current_time() - begin, f"{pool} was not lowered, or not all places were taken: gave up"))
        await self._hold(None)
        await anyio.sleep_until(max(raise_at, anyio.current_time() + LOWERED_S))
        await database.run(_resize, pool, POOLS[pool])
        await notify_daemons(database, Work.ADMIT)
        self.diary.append((anyio.current_time() - begin, f"{pool} has {POOLS[pool]} slots"))

    async def _until_taken(self, database: Database, pool: str, slots: int) -> None:
        """Lower the pool. If it is to be filled, applications end only where tasks of other pools have all the places."""
        while not await _lower_below_taken(database, pool, slots):
            if self.plan.fills and await database.run(_active) >= self.plan.parallelism:
                await self._hold(ROOM)
            await anyio.sleep(0.02)

    async def _fill(self, database: Database) -> None:
        """Applications do not end before as many tasks are active as may be: whether they are must not depend on the machine.

        Then one ends, and again once that is recorded: the places of several would be given in one admission. Of the places that
        tasks without another limit get so, each fair turn passes others over.
        """
        for _ in range(self.plan.fills):
            while not await database.run(_is_full, self.plan.parallelism):
                await anyio.sleep(0.02)
            ended = await database.run(_ended)
            await self._hold(1)
            while await database.run(_ended) == ended:
                await anyio.sleep(0.02)

    async def _hold(self, but: int | None) -> None:
        host, _, port = self.cluster.rpartition(":")
        async with await anyio.connect_tcp(host, int(port)) as stream:
            await stream.send(msgspec.json.encode({"call": "hold", "but": but}) + b"\n")
            await stream.receive()

    async def _judge(self) -> Verdict:
        db = await asyncpg.connect(self.postgres.dsn)
        try:
            ends = [end for daemon in self.daemons for end in daemon.ends]
            self.waited = await waited(db)
            bounds = Bounds(parallelism=self.plan.parallelism, fair_after_s=FAIR_AFTER_S, idle_s=self.plan.idle_s)
            return await judge(db, ends, bounds)
        finally:
            await db.close()

    def report(self, verdict: Verdict) -> str:
        return f"{super().report(verdict)}\n{self.waited}"


def events(wanted: Sequence[Wanted], random: Random, within_s: float) -> list[Planned]:
    """The events that the DAGs wait for, in any order; the time of each is when it will be sent."""
    uris = [uri(each.dag_id) for each in wanted for _ in range(each.events)]
    random.shuffle(uris)
    begin = datetime.now(UTC)
    moments = (begin + timedelta(seconds=within_s * number / len(uris)) for number in range(len(uris)))
    return [event(number, at, dataset) for number, (at, dataset) in enumerate(zip(moments, uris, strict=True))]


async def _active(db: Db) -> int:
    ((tasks,),) = await db.fetch("SELECT count(*) FROM occupying_task")
    return int(tasks)


async def _ended(db: Db) -> int:
    ((attempts,),) = await db.fetch("SELECT count(*) FROM submission WHERE ended_at IS NOT NULL")
    return int(attempts)


async def _is_full(db: Db, parallelism: int) -> bool:
    """Whether `parallelism` tasks are active, and in the limitless pool one task starves and another waits."""
    ((is_full,),) = await db.fetch(FULL, parallelism, LIMITLESS, FAIR_AFTER_S)
    return bool(is_full)


async def _lower_below_taken(database: Database, pool: str, slots: int) -> bool:
    """Give a pool `slots` while more are taken; whether more still are.

    A task may end between the look of a transaction and its commit: the pool gets its slots back then.
    """
    if not await database.run(_resize, pool, slots, above=slots):
        return False
    is_lower = await database.run(_taken, pool) > slots
    if not is_lower:
        await database.run(_resize, pool, POOLS[pool])
    return is_lower


async def _resize(db: Db, pool: str, slots: int, *, above: int = -1) -> bool:
    """Give a pool `slots` if more than `above` of them are taken; whether they were. No task is admitted meanwhile."""
    await pools.lock_slots(db, pool)
    is_taken = await _taken(db, pool) > above
    if is_taken:
        await pools.set_slots(db, pool, slots)
    return is_taken


async def _taken(db: Db, pool: str) -> int:
    ((slots,),) = await db.fetch(TAKEN, pool)
    return int(slots)
