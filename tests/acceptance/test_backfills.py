"""What users of a peer reported of its backfills, tried on two daemons at work.

| what they saw | test |
|---|---|
| it was complete before its runs existed | test_it_ends_after_its_last_run_has_and_keeps_its_limit |
| two schedulers exceeded its limit | test_it_ends_after_its_last_run_has_and_keeps_its_limit |
| cleared runs were blocked after a cancel | test_a_cleared_run_of_a_cancelled_one_runs |
| it starved for ever | test_it_goes_on_while_others_want_all_slots |
| it blocked all DAGs | test_a_large_one_blocks_no_other_dag |
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.acceptance.command import Command, Ended
from tests.acceptance.daemon_pair import DaemonPair, two_daemons
from tests.waiting import until
from tidegate.events import Publisher

FILE = """
from datetime import datetime, UTC
from tidegate import Dag, Dataset, cron
# Its last tick is past: a test that runs about midnight has no run by time.
DAILY = {"schedule": cron("0 0 * * *"), "catchup": False, "end_date": datetime(2025, 1, 1, tzinfo=UTC)}
with Dag("brief", **DAILY) as dag:
    dag.empty("noop")
with Dag("work", **DAILY) as dag:
    dag.command("work", ["sleep", "0.2"])
with Dag("long", **DAILY) as dag:
    dag.command("work", ["sleep", "600"])
with Dag("starved", **DAILY) as dag:
    dag.command("work", ["true"], pool="one")
with Dag("greedy", schedule=Dataset("s://greedy"), mode="each", max_active_runs=100) as dag:
    dag.command("work", ["sleep", "0.1"], pool="one")
with Dag("other", schedule=Dataset("s://other")) as dag:
    dag.empty("noop")
"""
WITHIN_S = 60.0
MOST_AT_ONCE = """
    SELECT max(running) FROM (
        SELECT sum(step) OVER (ORDER BY at, step) AS running FROM (
            SELECT start_date AS at, 1 AS step FROM dag_run WHERE dag_id = $1
            UNION ALL SELECT end_date, -1 FROM dag_run WHERE dag_id = $1
        ) AS steps
    ) AS counted
"""
ENDED_EARLY = """
    SELECT backfill.id FROM backfill
    WHERE run_end_date IS NOT NULL AND (
        EXISTS (SELECT FROM dag_run WHERE backfill_id = backfill.id AND (end_date IS NULL OR end_date > run_end_date))
        OR dates <> $1
    )
"""
STILL_TO_DO = """
    SELECT count(*) FROM dag_run
    WHERE dag_id = $1 AND coalesce(end_date, 'infinity') > (SELECT run_end_date FROM backfill)
"""
"""At the end of the only backfill, however late that is seen."""


class Two:
    """Two daemons, and a user."""

    def __init__(self, pair: DaemonPair, command: Command) -> None:
        self.pair = pair
        self.command = command

    async def user(self, *args: str) -> Ended:
        ended = await self.command(*args)
        assert ended.code == 0, ended
        return ended

    async def create(self, dag_id: str, *options: str) -> None:
        await self.user("backfills", "create", dag_id, "--from", "2015-01-01", *options)

    async def until(self, sql: str, *args: object) -> None:
        await until(lambda: self.pair.db.fetchval(sql, *args), WITHIN_S)


@pytest.fixture
async def two(dsn: str, kafka: str, topic_prefix: str, tmp_path: Path) -> AsyncIterator[Two]:
    command = Command(tmp_path, postgres_dsn=dsn, kafka_servers=kafka, topic_prefix=topic_prefix)
    async with two_daemons(dsn, kafka, topic_prefix, tmp_path, FILE, fair_after_s=2) as pair:
        yield Two(pair, command)


ENDED = "SELECT run_end_date IS NOT NULL FROM backfill"


async def test_it_ends_after_its_last_run_has_and_keeps_its_limit(two: Two) -> None:
    """A peer completed one before its runs existed, and exceeded its limit under two schedulers."""
    await two.create("brief", "--to", "2015-12-31", "--max-active-runs", "7")
    await two.until(ENDED)
    assert await two.pair.db.fetchval(ENDED_EARLY, 365) is None
    await two.user("backfills", "delete", "1", "--yes")

    await two.create("work", "--to", "2015-01-12", "--max-active-runs", "3")
    await two.until(f"{ENDED} WHERE id = 2")

    assert await two.pair.db.fetchval(f"{ENDED_EARLY} AND backfill.id = 2", 12) is None
    assert await two.pair.db.fetchval(MOST_AT_ONCE, "work") == 3


async def test_a_cleared_run_of_a_cancelled_one_runs(two: Two) -> None:
    """A peer left it queued for ever."""
    await two.create("work", "--to", "2019-12-31", "--max-active-runs", "1")  # far more than end before it is cancelled
    await two.until("SELECT EXISTS (SELECT FROM dag_run WHERE state = 'success')")
    await two.user("backfills", "cancel", "1", "--kill")
    await two.until(ENDED)

    await two.user("runs", "clear", "work", "backfill__2015-01-01T00:00:00+00:00", "--yes")

    await two.until("SELECT try_number = 2 AND state = 'success' FROM task_instance ORDER BY dag_run_id LIMIT 1")


async def test_it_goes_on_while_others_want_all_slots(two: Two, kafka: str, topic_prefix: str) -> None:
    """A peer starved it for ever."""
    await two.user("pools", "set", "one", "1")
    async with Publisher(kafka, source="test", topic_prefix=topic_prefix) as publisher:
        for number in range(80):
            await publisher.dataset_updated("s://greedy")
            if number == 5:
                await two.create("starved", "--to", "2015-01-02")
    await two.until("SELECT count(*) = 80 FROM dag_run WHERE dag_id = 'greedy'")

    await two.until(ENDED)

    assert await two.pair.db.fetchval(STILL_TO_DO, "greedy") > 0


async def test_a_large_one_blocks_no_other_dag(two: Two, kafka: str, topic_prefix: str) -> None:
    """A peer stopped scheduling for all DAGs."""
    await two.create("long", "--to", "2020-01-01", "--max-active-runs", "8")
    await two.create("brief", "--to", "2099-01-01", "--max-active-runs", "1")
    await two.until("SELECT count(*) = 8 FROM dag_run WHERE dag_id = 'long' AND state = 'running'")

    async with Publisher(kafka, source="test", topic_prefix=topic_prefix) as publisher:
        for _ in range(20):
            await publisher.dataset_updated("s://other")
    await two.until("SELECT sum(events) = 20 FROM dag_run WHERE dag_id = 'other' AND state = 'success'")

    assert not await two.pair.db.fetchval("SELECT bool_and(run_end_date IS NOT NULL) FROM backfill WHERE dag_id = 'long'")
    await two.user("backfills", "cancel", "1", "--kill")
    await two.until("SELECT run_end_date IS NOT NULL FROM backfill WHERE id = 1")
    await two.until("SELECT NOT EXISTS (SELECT FROM submission WHERE ended_at IS NULL)")
