"""A daemon at work when an asynchronous standby takes over, which lacks the last commits."""

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import msgspec
from aiokafka import AIOKafkaProducer

from tests.acceptance.command import TIDEGATE, Ended, environment, run
from tests.failover.primary_with_standby import Couple
from tests.storms.evidence import read_all
from tests.storms.records import event
from tests.storms.settings import SETTINGS
from tests.waiting import until
from tidegate.daemon.standalone.process import spawn
from tidegate.events import topics
from tidegate.schemas.wire.envelope import decode_state
from tidegate.schemas.wire.event import Kind

WITHIN_S = 60.0
LONG_S = 60
"""Leases outlast the test: nothing is read again only because a lease changed hands."""

DAGS = """\
from tidegate import Dag, Dataset

with Dag("quick", schedule=Dataset("s://a"), mode="each") as dag:
    dag.empty("only")

with Dag("slow", schedule=Dataset("s://b")) as dag:
    dag.command("work", ["sh", "-c", "echo once >> {home}/executions; while [ ! -e {home}/go ]; do sleep 0.1; done"])
"""
TAKEN = """
SELECT array_agg(event.event_id ORDER BY event.event_id)
FROM dagrun_dataset_event JOIN dataset_event AS event ON event.id = dataset_event_id
"""
KNOWS = "SELECT count(*) = 2 FROM dag"
AT_WORK = "SELECT count(*) = 1 FROM dag_run WHERE dag_id = 'slow' AND state = 'running'"
WORKS = "SELECT count(*) = 1 FROM submission WHERE state = 'accepted'"
ENDED = "SELECT count(*) = 0 FROM dag_run WHERE state IN ('queued', 'running')"


class Scene:
    """A daemon on two servers, and what a test does around it."""

    def __init__(self, couple: Couple, kafka: str, prefix: str, home: Path) -> None:
        self.couple = couple
        self.home = home
        self.kafka = kafka
        self.prefix = prefix
        self.sent = 0

    @property
    def env(self) -> dict[str, str]:
        settings: dict[str, object] = {
            **SETTINGS,
            "lease_ttl_s": LONG_S,
            "postgres_dsn": self.couple.dsn,
            "kafka_servers": self.kafka,
            "topic_prefix": self.prefix,
            "dags_folder": self.home / "dags",
            "spool_dir": self.home / "spool",
        }
        return {**environment(), **{f"TIDEGATE_{key.upper()}": str(value) for key, value in settings.items()}}

    @asynccontextmanager
    async def daemon(self, name: str) -> AsyncIterator[None]:
        log = self.home / f"daemon-{name}.log"
        child = await spawn((TIDEGATE, "daemon"), log=log, cwd=self.home, env=self.env, on_orphaned=signal.SIGKILL)
        try:
            yield
            assert child.alive, child.tail()
        finally:
            await child.end(signal.SIGTERM, 20)

    async def send(self, uri: str, count: int = 1) -> list[str]:
        """Their ids, once Kafka has them."""
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        async with AIOKafkaProducer(bootstrap_servers=self.kafka) as producer:
            for number in numbers:
                each = event(number, datetime.now(UTC), uri)
                await producer.send_and_wait(
                    topics.name(self.prefix, Kind.DATASET_UPDATED), each.value, headers=list(each.headers)
                )
        return [f"event-{number}" for number in numbers]

    async def until(self, holds: str) -> None:
        await until(lambda: self.couple.primary.ask(holds), WITHIN_S)

    async def until_taken(self, count: int) -> list[str]:
        """The events that made runs, each as often as it did, once there are `count`."""
        with anyio.fail_after(WITHIN_S):
            while len(taken := await self.couple.primary.ask(TAKEN) or []) < count:
                await anyio.sleep(0.05)
        return list(taken)

    def logged(self, event: str) -> list[dict[str, Any]]:
        lines = [
            msgspec.json.decode(line) for log in sorted(self.home.glob("daemon-*.log")) for line in log.read_bytes().splitlines()
        ]
        return [line for line in lines if line["event"] == event]

    async def tidegate(self, *args: str) -> Ended:
        return await run(TIDEGATE, *args, env=self.env, cwd=self.home)

    async def numbers(self, dag_id: str) -> Sequence[int]:
        """Those of the run's state events, as the topic has them."""
        records = read_all(self.kafka, topics.name(self.prefix, Kind.DAG_RUN_STATE), {})
        states = [decode_state(Kind.DAG_RUN_STATE, record.headers, record.value) async for record in records]
        return [state.seq for state in states if state.dag_id == dag_id]


async def open_scene(couple: Couple, kafka: str, prefix: str, home: Path) -> Scene:
    await topics.create(kafka, prefix, 1, 1)
    (home / "dags").mkdir()
    (home / "dags" / "dags.py").write_text(DAGS.replace("{home}", str(home)))
    return Scene(couple, kafka, prefix, home)


async def test_lost_commits_are_told_and_their_inputs_are_read_again(
    loose_couple: Couple, kafka: str, topic_prefix: str, tmp_path: Path
) -> None:
    scene = await open_scene(loose_couple, kafka, topic_prefix, tmp_path)
    async with scene.daemon("a"), scene.daemon("b"):
        await scene.until(KNOWS)
        kept = await scene.send("s://a", 5)
        await scene.until_taken(5)
        await loose_couple.caught_up()
        async with loose_couple.held_back():
            begin = await loose_couple.primary.ask("SELECT clock_timestamp()")
            lost = await scene.send("s://a", 5)
            await scene.until_taken(10)
            end = await loose_couple.primary.ask("SELECT max(received_at) FROM dataset_event")
            await loose_couple.fail_over()
        again = await scene.until_taken(10)
        more = await scene.send("s://a", 5)
        taken = await scene.until_taken(15)
        await scene.until(ENDED)
        listed = await scene.tidegate("losses", "list", "--json")
        reminded = await scene.tidegate("dags", "list")
        settled = await scene.tidegate("losses", "settle", "1", "--because", "seen to")
        silent = await scene.tidegate("dags", "list")

    assert sorted(taken) == sorted(kept + lost + more)
    assert sorted(again) == sorted(kept + lost)
    (loss,) = msgspec.json.decode(listed.out)
    since, until = (datetime.fromisoformat(loss[name]) for name in ("since", "until"))
    assert since <= begin
    assert until >= end
    assert 1 <= len(scene.logged("commits_lost")) <= 2
    assert (reminded.code, "tidegate losses list" in reminded.err, silent.err) == (0, True, "")
    assert settled.out == "loss 1 is settled\n"


async def test_a_run_whose_start_was_lost_runs_once_and_its_numbers_go_on(
    loose_couple: Couple, kafka: str, topic_prefix: str, tmp_path: Path
) -> None:
    """Its application is found under the stamp of the attempt that is made again."""
    scene = await open_scene(loose_couple, kafka, topic_prefix, tmp_path)
    await loose_couple.primary.ask("UPDATE pool SET slots = 0")
    async with scene.daemon("a"):
        await scene.until(KNOWS)
        await scene.send("s://b")
        await scene.until(AT_WORK)
        await loose_couple.caught_up()
        async with loose_couple.held_back():
            await loose_couple.primary.ask("UPDATE pool SET slots = 10")
            await scene.until(WORKS)
            await loose_couple.fail_over()
        assert await loose_couple.primary.ask("SELECT count(*) FROM submission") == 0
        await loose_couple.primary.ask("UPDATE pool SET slots = 10")
        await scene.until(WORKS)
        (tmp_path / "go").touch()
        await scene.until(ENDED)
        await scene.until("SELECT NOT EXISTS (SELECT FROM outbox)")

    numbers = await scene.numbers("slow")
    assert (tmp_path / "executions").read_text() == "once\n"
    assert len(scene.logged("submission_adopted")) == 1
    assert (numbers[:2], len(set(numbers)) == len(numbers), numbers == sorted(numbers)) == ([1, 2], True, True)
    assert numbers[-1] > 1_000_000
