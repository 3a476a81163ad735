"""A daemon as it is installed, on a ledger with a past: the retention takes what is over and leaves what still counts."""

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from tests.acceptance.command import TIDEGATE, Tidegate
from tests.acceptance.crash_scenario import Connection
from tests.servers import MakeSettings
from tests.waiting import until_found
from tidegate.daemon.standalone.process import Child, spawn
from tidegate.events import Publisher, topics
from tidegate.schemas.timetable.month import after, month_of

WITHIN_S = 60.0
FILE = """
from tidegate import Dag, Dataset

a, b = Dataset("lake://a"), Dataset("lake://b")
with Dag("each", schedule=a) as dag:
    dag.empty("done")
with Dag("both", schedule=Dataset("lake://waits") & b) as dag:
    dag.empty("done")
"""
AGO = timedelta(days=200)
SUCCEEDED = "SELECT count(*) FROM dag_run WHERE dag_id = $1 AND state = 'success'"
PENDING = "SELECT count(*) FROM dataset_dag_run_queue"
EVENTS = "SELECT count(*) FROM dataset_event"
STATE = "SELECT state::text FROM ledger_month WHERE month = $1"
BEGUN = "SELECT count(*) FROM dataset_event_id_seq WHERE last_value > 1000000000000"
"""Ids have months. Which month it is the ledger says: the clock of the test may be in the next one already."""

RETIRING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%FROM retire_ledger_month(%'
"""

AGED = """
CREATE FUNCTION aged(id bigint) RETURNS bigint LANGUAGE sql
RETURN {past} * 1000000000000 + (id / 1000000000000 - {past}) * 1000 + id % 1000000000000;
UPDATE dataset_event SET id = aged(id), arrival_id = aged(arrival_id), received_at = received_at - interval '{days} days';
UPDATE dataset_event_arrival SET id = aged(id);
UPDATE dagrun_dataset_event SET dataset_event_id = aged(dataset_event_id);
UPDATE discarded_dataset_event SET dataset_event_id = aged(dataset_event_id);
UPDATE dataset_dag_run_queue SET dataset_event_id = aged(dataset_event_id);
DROP FUNCTION aged;
"""
"""The events that there are, of one month or of two, came that long ago."""

Start = Callable[..., AbstractAsyncContextManager[Child]]


@pytest.fixture
def start(settings: MakeSettings, tmp_path: Path) -> Start:
    """A daemon that looks after the ledger as soon as it is up."""
    numbers = iter(range(10))

    @asynccontextmanager
    async def started() -> AsyncIterator[Child]:
        mine = settings(runner_heartbeat_s=0.1, log_format="json", lease_ttl_s=2, lease_renew_s=0.5)
        given = {name: str(value) for name, value in msgspec.structs.asdict(mine).items() if name not in ("debug", "cache")}
        env = {**os.environ, **{f"TIDEGATE_{name.upper()}": value for name, value in given.items()}}
        log = tmp_path / f"daemon-{next(numbers)}.log"
        child = await spawn((TIDEGATE, "daemon"), log=log, cwd=tmp_path, env=env, on_orphaned=signal.SIGKILL)
        try:
            yield child
        finally:
            await child.end(signal.SIGTERM, 20)

    return started


class Ledger:
    """The database and the topics of the daemons."""

    def __init__(self, db: Connection, kafka: str, prefix: str) -> None:
        self.db = db
        self._kafka = kafka
        self._prefix = prefix
        self.past = month_of(datetime.now(UTC) - AGO)

    async def updated(self, *uris: str) -> None:
        async with Publisher(self._kafka, source="t", topic_prefix=self._prefix) as publisher:
            for uri in uris:
                await publisher.dataset_updated(uri)

    async def until(self, wanted: object, sql: str, *arguments: object) -> None:
        await until_found(self.db, wanted, sql, *arguments, within_s=WITHIN_S)

    async def age(self) -> None:
        """All that has come is older than the retention."""
        await self.db.execute("SELECT make_ledger_month($1, $2)", self.past, after(self.past))
        await self.db.execute(AGED.format(past=self.past, days=AGO.days))


@pytest.fixture
async def ledger(dsn: str, kafka: str, topic_prefix: str, tmp_path: Path, start: Start) -> AsyncIterator[Ledger]:
    """Three events came long ago: two have made runs, one waits."""
    await topics.create(kafka, topic_prefix, 1, 1)
    (tmp_path / "dags" / "dags.py").write_text(FILE)
    db = await asyncpg.connect(dsn)
    found = Ledger(db, kafka, topic_prefix)
    async with start():
        await found.until(2, "SELECT count(*) FROM dag")
        await found.until(1, BEGUN)
        await found.updated("lake://a", "lake://waits")
        await found.until(1, PENDING)
        await found.updated("lake://a")
        await found.until(2, SUCCEEDED, "each")
    await found.age()
    yield found
    await db.close()


async def audited(tidegate: Tidegate, settings: MakeSettings) -> Any:
    """What `datasets audit` says; it ends well."""
    ended = await tidegate("datasets", "audit", "--json", postgres_dsn=settings().postgres_dsn)
    assert ended.code == 0, ended
    return msgspec.json.decode(ended.out)


async def test_what_is_over_goes_and_what_waits_makes_its_run(
    ledger: Ledger, start: Start, tidegate: Tidegate, settings: MakeSettings
) -> None:
    before = await audited(tidegate, settings)

    async with start():
        await ledger.until("thinned", STATE, ledger.past)
        thinned = await audited(tidegate, settings)
        await ledger.updated("lake://b")
        await ledger.until(1, SUCCEEDED, "both")

    said = await tidegate("runs", "explain", "each", "latest", postgres_dsn=settings().postgres_dsn)
    assert [(report["events"], report["due"], report["wrong"]) for report in (before, thinned)] == [(3, 3, 0), (1, 1, 0)]
    assert await ledger.db.fetchval("SELECT events FROM dag_run WHERE dag_id = 'both'") == 2
    assert "1 older than the retention of the ledger" in said.out
    assert (await audited(tidegate, settings))["wrong"] == 0


async def test_a_daemon_that_is_killed_on_the_way_leaves_it_to_the_next(
    ledger: Ledger, dsn: str, start: Start, tidegate: Tidegate, settings: MakeSettings
) -> None:
    """The daemon is killed after the copy, before the tables are swapped: a reader holds them locked all the time."""
    reader = await asyncpg.connect(dsn)
    async with reader.transaction():
        await reader.fetch("SELECT FROM dataset_event")
        async with start() as daemon:
            await ledger.until(1, RETIRING)
            os.kill(daemon.pid, signal.SIGKILL)
            await ledger.until(0, RETIRING)
        left = await audited(tidegate, settings)
    await reader.close()

    async with start():
        await ledger.until("thinned", STATE, ledger.past)

    assert (left["events"], left["due"], left["wrong"]) == (3, 3, 0)
    assert (await ledger.db.fetchval(EVENTS), (await audited(tidegate, settings))["wrong"]) == (1, 0)
