"""Daemons are killed at random while a backfill of many dates is paused, changed and cancelled, or runs to its end."""

import os
from collections.abc import AsyncIterator
from datetime import date, timedelta
from pathlib import Path
from random import Random

import anyio
import pytest

from tests.acceptance.command import Command
from tests.acceptance.daemon_pair import DaemonPair, two_daemons
from tests.backfill_rules import MISCOUNTED
from tests.waiting import until

LONG = bool(os.environ.get("TEST_LONG"))
DATES, BEFORE, PROCESSES = (2000, 396, 60) if LONG else (100, 60, 24)
"""Dates, how many of them come before the first one whose task is a process, and how many have one."""
FIRST_PROCESS = date(2016, 4, 1) - timedelta(days=PROCESSES)

FILE = f"""
from datetime import datetime, UTC
from tidegate import Dag, cron
# Its last tick is past: a test that runs about midnight has no run by time.
with Dag("d", schedule=cron("0 0 * * *"), catchup=False, end_date=datetime(2025, 1, 1, tzinfo=UTC)) as dag:
    begin = dag.empty("begin")
    # A tenth of the dates fails. The last three wait for the user, so that fewer than four runs at once never get past them.
    wait = "until [ -e {{home}}/go ] || [[ '{{{{ ds }}}}' < 2016-03-29 ]]; do sleep 0.1; done; "
    work = dag.command("work", ["bash", "-c", wait + "[[ '{{{{ ds }}}}' != *5 ]]"],
        start_date=datetime({FIRST_PROCESS:%Y, %-m, %-d}, tzinfo=UTC), end_date=datetime(2016, 3, 31, tzinfo=UTC))
    begin >> work >> dag.empty("end")
"""
FAILING = {day for number in range(PROCESSES) if (day := str(FIRST_PROCESS + timedelta(days=number))).endswith("5")}
FIRST = FIRST_PROCESS - timedelta(days=BEFORE)
RANGE = ("--from", str(FIRST), "--to", str(FIRST + timedelta(days=DATES - 1)))
KILLS = 6 if LONG else 2
PAUSE_S = (1.0, 3.0)
"""Between two kills."""

WITHOUT_FATE = """
    SELECT date.* FROM backfill_date AS date LEFT JOIN dag_run AS run ON run.id = date.dag_run_id
    WHERE date.state IN ('open', 'retry') OR (date.state = 'success' AND run.state IS DISTINCT FROM 'success')
        OR (date.state IN ('failed', 'cancelled') AND run.state IS DISTINCT FROM 'failed')
        OR (date.state = 'skipped' AND date.reason = '')
"""
WITHOUT_DATE = "SELECT id FROM dag_run WHERE id NOT IN (SELECT dag_run_id FROM backfill_date WHERE dag_run_id IS NOT NULL)"
DOUBLED = "SELECT logical_date FROM dag_run GROUP BY dag_id, logical_date HAVING count(*) > 1"
UNENDED = "SELECT id FROM dag_run WHERE state IN ('queued', 'running')"


class Killed:
    """Two daemons that are killed one after the other, and a user."""

    def __init__(self, pair: DaemonPair, command: Command) -> None:
        self.pair = pair
        self.command = command

    async def kill_at_random(self, chance: Random) -> None:
        for _ in range(KILLS):
            await anyio.sleep(chance.uniform(*PAUSE_S))
            with anyio.CancelScope(shield=True):  # each is killed and replaced, or neither
                await self.pair.replace(chance.randrange(2))

    async def user(self, *args: str) -> None:
        ended = await self.command("backfills", *args)
        assert ended.code == 0, ended

    def let_go(self) -> None:
        """The last dates with a process may end."""
        (self.pair.home / "go").touch()

    async def until_dates(self, dates: int) -> None:
        await self._until("SELECT dates >= $1 FROM backfill", dates)

    async def until_ended(self) -> None:
        await self._until("SELECT run_end_date IS NOT NULL FROM backfill")

    async def _until(self, sql: str, *args: int) -> None:
        await until(lambda: self.pair.db.fetchval(sql, *args), 120)

    async def check(self) -> None:
        """Each planned date has one run or one reason, each run one date, and the counts are those of the rows."""
        for sql in (MISCOUNTED, WITHOUT_FATE, WITHOUT_DATE, DOUBLED, UNENDED):
            assert await self.pair.db.fetch(sql) == [], sql
        assert all(daemon.alive for daemon in self.pair.daemons)


@pytest.fixture
async def killed(dsn: str, kafka: str, topic_prefix: str, tmp_path: Path) -> AsyncIterator[Killed]:
    command = Command(tmp_path, postgres_dsn=dsn, kafka_servers=kafka, topic_prefix=topic_prefix)
    async with two_daemons(dsn, kafka, topic_prefix, tmp_path, FILE) as pair:
        yield Killed(pair, command)


@pytest.mark.long
async def test_it_runs_to_its_end_with_its_failures_and_a_retry_of_them(killed: Killed) -> None:
    chance = Random()
    async with anyio.create_task_group() as group:
        group.start_soon(killed.kill_at_random, chance)
        await killed.user("create", "d", *RANGE, "--max-active-runs", "3")
        await killed.until_dates(chance.randrange(DATES // 20, DATES // 5))
        await killed.user("pause", "1")
        await killed.user("set", "1", "--max-active-runs", "8")
        await killed.user("resume", "1")
        killed.let_go()
        await killed.until_ended()
        group.cancel_scope.cancel()
    await killed.check()
    failed = "SELECT to_char(logical_date AT TIME ZONE 'UTC', 'YYYY-MM-DD') FROM backfill_date WHERE state = 'failed'"
    assert {row[0] for row in await killed.pair.db.fetch(failed)} == FAILING
    found = await killed.pair.db.fetchrow("SELECT state::text, dates, succeeded, failed FROM backfill")
    assert tuple(found or ()) == ("failed", DATES, DATES - len(FAILING), len(FAILING))

    await killed.user("retry", "1")
    await killed.until_ended()

    await killed.check()
    assert {row[0] for row in await killed.pair.db.fetch(failed)} == FAILING
    tries = """
        SELECT DISTINCT try_number FROM task_instance JOIN dag_run AS run ON run.id = dag_run_id
        WHERE task_id = 'work' AND run.state = 'failed'
    """
    assert [row[0] for row in await killed.pair.db.fetch(tries)] == [2]


@pytest.mark.long
async def test_a_cancelled_one_leaves_each_date_with_one_run_or_none(killed: Killed) -> None:
    chance = Random()
    async with anyio.create_task_group() as group:
        group.start_soon(killed.kill_at_random, chance)
        await killed.user("create", "d", *RANGE, "--max-active-runs", "2")
        await killed.until_dates(chance.randrange(BEFORE - 6, BEFORE + PROCESSES - 6))
        await killed.user("cancel", "1", *chance.choice([(), ("--kill",)]))
        killed.let_go()
        await killed.until_ended()
        group.cancel_scope.cancel()

    await killed.check()
    found = await killed.pair.db.fetchrow("SELECT state::text, dates < $1 FROM backfill", DATES)
    assert tuple(found or ()) == ("cancelled", True)
