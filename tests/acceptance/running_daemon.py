"""A daemon that runs as people start it, and the command line beside it."""

import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
from aiokafka import AIOKafkaProducer

from tests.acceptance.command import Ended, environment
from tests.integration.spark.submissions import until_nothing_runs
from tests.servers import MakeSettings
from tests.waiting import until
from tidegate.daemon.settings import Settings
from tidegate.daemon.standalone.process import Child, spawn
from tidegate.events import Publisher, topics
from tidegate.schemas.wire.event import Kind

LONG_S = 120.0


class RunningDaemon:
    """A daemon that runs, and the command line beside it."""

    def __init__(self, settings: Settings, call: Callable[..., Awaitable[Ended]]) -> None:
        self.settings = settings
        self.dags = Path(settings.dags_folder)
        self.call = call

    async def said(self, *args: str) -> str:
        return (await self.call(*args)).out

    async def answer(self, *args: str) -> Any:
        return msgspec.json.decode(await self.said(*args, "--json"))

    async def knows(self, *dag_ids: str) -> bool:
        return await self.holds("SELECT array_agg(dag_id) @> $1 FROM dag", list(dag_ids))

    async def has_ended(self, *dag_ids: str) -> bool:
        ended = "SELECT array_agg(dag_id) @> $1 FROM dag_run WHERE state IN ('success', 'failed')"
        return await self.holds(ended, list(dag_ids))

    async def has_runs(self, succeeded: int, dag_id: str) -> bool:
        """Whether this number of runs of a DAG have succeeded."""
        return await self.holds("SELECT count(*) = $1 FROM dag_run WHERE dag_id = $2 AND state = 'success'", succeeded, dag_id)

    async def holds(self, sql: str, *args: object) -> bool:
        """What is asked five times a second is asked without a process."""
        db = await asyncpg.connect(self.settings.postgres_dsn)
        try:
            return bool(await db.fetchval(sql, *args))
        finally:
            await db.close()

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        await until(holds, LONG_S, every_s=0.2)

    async def letters(self, *options: str) -> list[dict[str, Any]]:
        """Dead letters, oldest first."""
        found: list[dict[str, Any]] = await self.answer("deadletters", "list", *options)
        return found[::-1]

    async def until_letters(self, count: int) -> list[dict[str, Any]]:
        async def there() -> bool:
            return len(await self.letters()) == count

        await self.until(there)
        return await self.letters()

    async def send(self, kind: Kind, value: bytes) -> None:
        async with AIOKafkaProducer(bootstrap_servers=self.settings.kafka_servers) as producer:
            await producer.send_and_wait(self.settings.topic(kind), value)

    async def updated(self, uri: str) -> None:
        async with Publisher(self.settings.kafka_servers, source="t", topic_prefix=self.settings.topic_prefix) as publisher:
            await publisher.dataset_updated(uri)


Start = Callable[..., AbstractAsyncContextManager[RunningDaemon]]


def starter(settings: MakeSettings, call: Callable[..., Awaitable[Ended]], home: Path) -> Start:
    """Start `python -m tidegate.daemon`; nothing of it and of its tasks is left in the end."""

    @asynccontextmanager
    async def started(**given: Any) -> AsyncIterator[RunningDaemon]:
        mine = settings(topic_partitions=1, **given)
        await topics.create(mine.kafka_servers, mine.topic_prefix, 1, 1, security=mine.kafka_security)
        child = await spawn_daemon(mine, home)
        try:
            yield RunningDaemon(mine, partial(call, **as_text(mine)))
            assert child.alive, child.tail()
        finally:
            await child.end(signal.SIGTERM, 20)
            await _tasks_ended(mine.postgres_dsn)

    return started


def as_text(settings: Settings) -> dict[str, str]:
    """The settings that a daemon or command of a test is given."""
    return {name: str(value) for name, value in msgspec.structs.asdict(settings).items() if name not in ("debug", "cache")}


async def spawn_daemon(settings: Settings, home: Path) -> Child:
    """A daemon that writes to `daemon.log`; the caller ends it."""
    env = environment() | {f"TIDEGATE_{name.upper()}": value for name, value in as_text(settings).items()}
    command = (sys.executable, "-m", "tidegate.daemon")
    return await spawn(command, log=home / "daemon.log", cwd=home, env=env, on_orphaned=signal.SIGKILL)


async def _tasks_ended(dsn: str) -> None:
    db = await asyncpg.connect(dsn)
    for row in await db.fetch("SELECT submission_id FROM submission"):
        await until_nothing_runs(row["submission_id"])
    await db.close()
