"""Servers that are away, at the start or for long: a daemon says so once, costs next to nothing, and goes on by itself."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest

from tests.acceptance.single_daemon import PREFIX, Footprint, SingleDaemon, prepare, single_daemon
from tests.servers import StartKafka, StartPostgres
from tests.waiting import until
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.postgres import Postgres
from tidegate.events import RunStates

AWAY_S = 300.0 if os.environ.get("TEST_LONG") else 10.0
WITHIN_S = 60.0
SETTLE_S = 3.0
CPU_SHARE = 0.2
LINES = 10
RSS_BYTES = 48 << 20
FILES = 20


class Cost(NamedTuple):
    """What a daemon used from one moment to another, and how much more it held."""

    before: Footprint
    after: Footprint

    @property
    def cpu_share(self) -> float:
        return (self.after.cpu_s - self.before.cpu_s) / AWAY_S

    @property
    def is_modest(self) -> bool:
        return (
            self.cpu_share < CPU_SHARE
            and self.after.lines - self.before.lines < LINES
            and self.after.rss - self.before.rss < RSS_BYTES
            and self.after.files - self.before.files < FILES
        )

    def __str__(self) -> str:
        lines, files = self.after.lines - self.before.lines, self.after.files - self.before.files
        mib = (self.after.rss - self.before.rss) / 2**20
        return f"{AWAY_S:g} s: {self.cpu_share:.1%} of a core, {lines} lines, {mib:+.1f} MiB, {files:+} open files"


async def wait(daemon: SingleDaemon) -> Cost:
    before = daemon.footprint()
    await anyio.sleep(AWAY_S)
    return Cost(before, daemon.footprint())


@pytest.fixture
async def servers(own_postgres: StartPostgres, own_kafka: StartKafka, tmp_path: Path) -> tuple[Postgres, Kafka]:
    postgres, kafka = await own_postgres(), await own_kafka()
    await prepare(postgres.dsn, kafka.bootstrap, tmp_path)
    return postgres, kafka


async def published(daemon: SingleDaemon) -> set[tuple[str, str]]:
    """The runs whose success is told on the topic."""
    states = RunStates(daemon.bootstrap, topic_prefix=PREFIX)
    await states.catch_up()
    assert states.gaps == 0
    return {run for run, event in states.items() if event.state == "success"}


async def until_told(daemon: SingleDaemon, count: int) -> None:
    """Until this number of runs succeeded, and the topic has it. Raises TimeoutError."""

    async def all_told() -> bool:
        return await daemon.has_runs(count) and len(await published(daemon)) == count

    await until(all_told, WITHIN_S)


async def lost(daemon: SingleDaemon, server: str) -> bool:
    return server in daemon.said("server_lost")


async def test_a_daemon_that_finds_nothing_waits_for_all_and_says_so_once(
    servers: tuple[Postgres, Kafka], tmp_path: Path
) -> None:
    postgres, kafka = servers
    await postgres.stop()
    await kafka.stop()

    async with single_daemon(postgres.dsn, kafka.bootstrap, tmp_path) as daemon:
        await until(lambda: lost(daemon, "Postgres"), WITHIN_S)
        await anyio.sleep(SETTLE_S)
        alone_lines = daemon.footprint().lines
        await postgres.start()
        await until(lambda: lost(daemon, "Kafka"), WITHIN_S)
        await anyio.sleep(SETTLE_S)
        await kafka.start()
        await until(daemon.knows_dags, WITHIN_S)
        await daemon.publish(1)
        await until_told(daemon, 1)
        await anyio.sleep(SETTLE_S)

        assert daemon.child.alive
        assert alone_lines <= 2
        assert sorted(daemon.said("server_lost")) == ["Kafka", "Postgres"]
        assert sorted(daemon.said("server_back")) == ["Kafka", "Postgres"]


async def kafka_away(postgres: Postgres, kafka: Kafka, home: Path) -> Cost:
    """Meanwhile runs are asked for, and done; their news waits."""
    async with single_daemon(postgres.dsn, kafka.bootstrap, home) as daemon:
        await until(daemon.knows_dags, WITHIN_S)
        await daemon.publish(5)
        await until_told(daemon, 5)
        await kafka.kill()
        await daemon.request("d", 40, "meanwhile")
        await daemon.request("works", 2, "meanwhile")
        await until(lambda: daemon.has_runs(47), WITHIN_S)
        cost = await wait(daemon)
        await kafka.start()
        await until_told(daemon, 47)
        await until(lambda: daemon.said("server_back"), WITHIN_S)

        assert daemon.said("server_lost") == daemon.said("server_back") == ["Kafka"]
    return cost


async def postgres_away(postgres: Postgres, kafka: Kafka, home: Path) -> Cost:
    """Meanwhile events arrive, which are taken later."""
    async with single_daemon(postgres.dsn, kafka.bootstrap, home) as daemon:
        await until(daemon.knows_dags, WITHIN_S)
        await daemon.publish(5)
        await until_told(daemon, 5)
        await postgres.crash()
        await daemon.publish(40)
        cost = await wait(daemon)
        await postgres.start()
        await until_told(daemon, 45)
        await until(lambda: daemon.said("server_back"), WITHIN_S)

        assert daemon.said("server_lost") == daemon.said("server_back") == ["Postgres"]
    return cost


@pytest.mark.long
async def test_a_daemon_costs_little_while_a_server_is_away_for_long_with_work_at_hand(
    own_postgres: StartPostgres, own_kafka: StartKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each server on a stage of its own; both at once, for it is waiting."""
    costs: dict[str, Cost] = {}

    async def one(name: str, play: Callable[[Postgres, Kafka, Path], Awaitable[Cost]]) -> None:
        (tmp_path / name).mkdir()
        postgres, kafka = await own_postgres(), await own_kafka()
        await prepare(postgres.dsn, kafka.bootstrap, tmp_path / name)
        costs[name] = await play(postgres, kafka, tmp_path / name)

    async with anyio.create_task_group() as tg:
        tg.start_soon(one, "Kafka", kafka_away)
        tg.start_soon(one, "Postgres", postgres_away)

    with capsys.disabled():
        print(*(f"\n{name} away for {cost}" for name, cost in costs.items()))  # noqa: T201 - figures that one wants to see
    assert all(cost.is_modest for cost in costs.values()), costs
