"""A daemon that ends by itself: when nothing is left to do, or when its time is over."""

import re
from pathlib import Path

import asyncpg
import msgspec
import pytest

from tests.acceptance.command import Ended, Tidegate
from tests.servers import MakeSettings
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.request import apply_request
from tidegate.daemon.settings import Settings
from tidegate.events import Publisher, topics
from tidegate.schemas.message import RunRequested

FILE = """
from datetime import timedelta
from tidegate import Dag, Dataset

raw, clean = Dataset("lake://raw"), Dataset("lake://clean")
with Dag("cleaning", schedule=raw) as dag:
    first = dag.command("first", ["sh", "-c", "exit 1"], retries=1, retry_delay=timedelta(seconds=1), outlets=[clean])
    first >> dag.command("anyway", {command!r}, trigger_rule="all_done", outlets=[clean])
with Dag("report", schedule=clean) as dag:
    dag.command("report", ["true"])
with Dag("tomorrow", schedule="0 0 29 2 *", catchup=False, run_immediately=False) as dag:
    dag.command("never", ["false"])
"""


@pytest.fixture
async def mine(settings: MakeSettings) -> Settings:
    """Servers with an unconsumed event, and a DAG folder that no daemon has read."""
    mine = settings(topic_partitions=2)
    await topics.create(mine.kafka_servers, mine.topic_prefix, 2, 1)
    return mine


async def published(mine: Settings) -> None:
    async with Publisher(mine.kafka_servers, source="t", topic_prefix=mine.topic_prefix) as publisher:
        await publisher.dataset_updated("lake://raw")


async def daemon(tidegate: Tidegate, mine: Settings, command: list[str], *options: str) -> Ended:
    Path(mine.dags_folder).mkdir(exist_ok=True)
    Path(mine.dags_folder, "made.py").write_text(FILE.format(command=command))
    Path(mine.dags_folder, "lacking.py").write_text("import tidegate\nimport no_such_module\n")
    given = {name: str(value) for name, value in msgspec.structs.asdict(mine).items() if name not in ("debug", "cache")}
    return await tidegate("daemon", *options, **given)


async def runs(mine: Settings) -> list[tuple[str, str]]:
    db = await asyncpg.connect(mine.postgres_dsn)
    try:
        return [(row[0], row[1]) for row in await db.fetch("SELECT dag_id, state::text FROM dag_run ORDER BY id")]
    finally:
        await db.close()


async def begun(mine: Settings) -> None:
    """A run that no daemon has to make."""
    async with connect(mine.postgres_dsn) as database:
        await apply_request(database, RunRequested(dag_id="cleaning", run_id="r1", conf={}))


async def hold(mine: Settings, dag_id: str) -> None:
    """As a daemon does after a decision about the DAG failed."""
    db = await asyncpg.connect(mine.postgres_dsn)
    try:
        await db.execute("UPDATE dag SET held_since = now(), hold_reason = 'a fault' WHERE dag_id = $1", dag_id)
    finally:
        await db.close()


async def test_it_ends_when_all_is_done_that_was_begun(tidegate: Tidegate, mine: Settings) -> None:
    assert (await daemon(tidegate, mine, ["sleep", "1"], "--until-idle")).code == 0
    await published(mine)
    await hold(mine, "tomorrow")

    ended = await daemon(tidegate, mine, ["sleep", "1"], "--until-idle")

    assert (ended.code, bool(re.search(r"reason\W+idle", ended.err))) == (0, True)
    assert ["tomorrow" in line for line in ended.err.splitlines() if "dags_held" in line] == [True]
    assert await runs(mine) == [("cleaning", "success"), ("report", "success")]


async def test_it_ends_after_its_time(tidegate: Tidegate, mine: Settings) -> None:
    ended = await daemon(tidegate, mine, ["true"], "--run-duration", "2s")

    assert (ended.code, "the time is over" in ended.err) == (0, True)


async def test_work_that_is_not_done_in_time_is_said(tidegate: Tidegate, mine: Settings) -> None:
    assert (await daemon(tidegate, mine, ["sleep", "600"], "--until-idle")).code == 0
    await begun(mine)

    ended = await daemon(tidegate, mine, ["sleep", "600"], "--until-idle", "--run-duration", "3s")

    assert ended.code == 1
    assert (
        ended.err.splitlines()[-1]
        == "tidegate: the installation was not idle within 3 s; `tidegate runs list` shows the runs in progress"
    )
    assert await runs(mine) == [("cleaning", "running")]
