"""Two daemons as they are started, and a DAG as a user writes it: each receiver gets each notification once."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import msgspec
import pytest

from tests.integration.notify.hook import SECRET, Hook
from tests.integration.notify.mailbox import Mailbox, serve
from tests.servers import MakeSettings
from tidegate.daemon.standalone.daemon import Daemon
from tidegate.events import Publisher, subscribe, topics
from tidegate.schemas.wire.event import DagRunStateChanged, Kind

LONG_S = 90.0

FILE = """
from datetime import timedelta
from tidegate import CallbackContext, Dag, Dataset, Deadline, Email, Webhook

def tell(context: CallbackContext):
    with open({out!r}, "a") as file:
        file.write(f"{{context.on}} {{context.task_id}}\\n")

hook, mail = Webhook({url!r}), Email("ops@example.org")
late = Deadline("late", after=timedelta(milliseconds=200), since="queued_at")

with Dag("watched", schedule=Dataset("s://a"), on_failure=[hook, tell], deadlines=[late], on_deadline=[hook, mail]) as dag:
    wait = "until [ -e {go} ]; do sleep 0.1; done; exit 3"  # until the deadline was missed
    dag.command("load", ["sh", "-c", wait], retries=1, retry_delay=timedelta(0), on_retry=tell)
"""


@pytest.fixture
async def mailbox() -> AsyncIterator[Mailbox]:
    async with serve() as mailbox:
        yield mailbox


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(LONG_S):
        while not await holds():
            await anyio.sleep(0.1)


async def test_two_daemons_tell_everybody_once(settings: MakeSettings, tmp_path: Path, mailbox: Mailbox) -> None:
    mine = settings(topic_partitions=1, webhook_secret=SECRET, smtp_host="127.0.0.1", smtp_port=mailbox.port, smtp_starttls=False)
    await topics.create(mine.kafka_servers, mine.topic_prefix, 1, 1)
    given = {name: str(value) for name, value in msgspec.structs.asdict(mine).items() if name not in ("debug", "cache")}
    out, go = tmp_path / "told", tmp_path / "go"
    db = await asyncpg.connect(mine.postgres_dsn)

    async def counted(sql: str) -> Any:
        return await db.fetchval(sql)

    with Hook() as hook:
        async with Daemon(tmp_path / "one", given), Daemon(tmp_path / "two", given):
            Path(mine.dags_folder, "watched.py").write_text(FILE.format(out=str(out), url=hook.url, go=go))
            await until(lambda: counted("SELECT count(*) = 1 FROM dag"))
            async with Publisher(mine.kafka_servers, source="t", topic_prefix=mine.topic_prefix) as publisher:
                await publisher.dataset_updated("s://a")
            await until(lambda: counted("SELECT count(*) = 2 FROM notification"))
            go.touch()
            await until(lambda: counted("SELECT count(*) = 5 AND bool_and(state = 'sent') FROM notification"))
            events = await run_events(mine.kafka_servers, mine.topic_prefix, "failed")
    await db.close()

    assert sorted(got.said["on"] for got in hook.got) == ["deadline", "failure"]
    assert all(got.is_signed_with(SECRET) for got in hook.got)
    assert [mail["Subject"].endswith("missed the deadline 'late'") for mail in mailbox.took] == [True]
    assert sorted(out.read_text().splitlines()) == ["failure None", "retry load"]
    assert [(event.seq, event.state) for event in events] == [(1, "queued"), (2, "running"), (3, "running"), (4, "failed")]
    assert [event.seq for event in events if event.missed_deadline] == [3]


async def run_events(servers: str, prefix: str, last: str) -> list[DagRunStateChanged]:
    """Of the run, up to the one that has it in this state."""
    found = []
    with anyio.fail_after(LONG_S):
        async with aclosing(subscribe(servers, topic_prefix=prefix, kinds=[Kind.DAG_RUN_STATE], from_beginning=True)) as events:
            async for event in events:
                assert isinstance(event, DagRunStateChanged)
                found.append(event)
                if event.state == last:
                    break
    return found
