"""Two daemons, by the entry point of the command, on a database and topics of a test's own; both of them read dataset events."""

import os
import signal
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

from tests import fork_server
from tests.acceptance.crash_scenario import Connection
from tests.servers import end_runners
from tests.storms.records import event
from tests.storms.settings import SETTINGS
from tests.waiting import until, until_found
from tidegate.daemon.audit import Report, audit_ledger
from tidegate.daemon.engine import Batch, _apply
from tidegate.daemon.postgres.database import connect, register_codecs
from tidegate.daemon.standalone.process import Child
from tidegate.events import topics
from tidegate.schemas.message import Message
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.memory import Memory
from tidegate.schemas.wire.event import DatasetUpdated, EventId, Kind

PARTITIONS = 6
"""Of dataset events; the other topics have one, so that no daemon can own all of these and its share."""

READY_S = 60.0
WITHIN_S = 60.0
STOP_S = 20.0

AT_WORK = """
SELECT (SELECT count(DISTINCT owner) FROM lease WHERE kind = 'partition' AND key LIKE '%dataset-updated/%') = 2
    AND (SELECT count(*) FROM lease WHERE kind = 'partition' AND key LIKE '%dataset-updated/%' AND owner IS NOT NULL) = $1
    AND EXISTS (SELECT FROM dag)
"""
TAKEN = """
SELECT run.run_id, array_agg(event.event_id ORDER BY event.id) AS events
FROM dag_run AS run
JOIN dagrun_dataset_event AS consumed ON consumed.dag_run_id = run.id
JOIN dataset_event AS event ON event.id = consumed.dataset_event_id
WHERE run.dag_id = $1
GROUP BY run.id
ORDER BY run.id
"""


class DaemonPair:
    """What a test does to the two daemons, and sees of them. `daemons` are their processes, if they run."""

    def __init__(
        self, dsn: str, db: Connection, producer: AIOKafkaProducer, prefix: str, home: Path, settings: Mapping[str, object]
    ) -> None:
        self.db = db
        self.home = home
        self.daemons: list[Child] = []
        self._settings = settings
        self.topic = topics.name(prefix, Kind.DATASET_UPDATED)
        self._dsn = dsn
        self._producer = producer
        self._numbers = count(1)

    async def start(self) -> None:
        """Both; nothing is said of when they are at work."""
        for name in "ab":
            self.daemons.append(await _start(name, self.home, self._settings))

    async def stop(self) -> None:
        """Both, in good order, the last to start first."""
        while self.daemons:
            await self.daemons.pop().end(signal.SIGTERM, STOP_S)

    async def replace(self, number: int) -> None:
        """Kill one of them, and start another in its place."""
        await self.daemons[number].end(signal.SIGKILL, STOP_S)
        self.daemons[number] = await _start("ab"[number], self.home, self._settings)

    async def send(self, *uris: str) -> list[str]:
        """One event each, from partition to partition, so that both daemons get some. Returns their ids once Kafka has all."""
        numbered = [(next(self._numbers), uri) for uri in uris]
        planned = [(number, event(number, datetime.now(UTC), uri)) for number, uri in numbered]
        sent = [
            await self._producer.send(self.topic, each.value, headers=list(each.headers), partition=number % PARTITIONS)
            for number, each in planned
        ]
        for each in sent:
            await each
        return [f"event-{number}" for number, _ in numbered]

    async def send_at(self, uri: str, *times: bytes) -> None:
        """An event of this dataset with each time in its envelope, whatever that says. Returns once Kafka has all."""
        for time in times:
            planned = event(next(self._numbers), datetime.now(UTC), uri)
            headers = [*{**dict(planned.headers), "ce_time": time}.items()]
            await self._producer.send_and_wait(self.topic, planned.value, headers=headers)

    @asynccontextmanager
    async def halfway(self, uri: str, event_id: str) -> AsyncIterator[None]:
        """A third daemon has done everything about an event of this dataset, but for the commit that ends the block."""
        db = await asyncpg.connect(self._dsn)
        try:
            await register_codecs(db)
            async with db.transaction():
                message = Message(body=DatasetUpdated(uri=uri), at=datetime.now(UTC), id=EventId("third", event_id))
                third = Db(db, Memory(), await db.fetchval("SELECT clock_timestamp()"))
                await _apply(third, Batch(messages=[message]))
                yield
        finally:
            await db.close()

    async def runs(self, dag_id: str = "d") -> list[set[str]]:
        """The events that each of its runs took, in the order of the runs."""
        return [set(row["events"]) for row in await self.db.fetch(TAKEN, dag_id)]

    async def until_rows(self, rows: int, sql: str, *arguments: Any) -> None:
        """Until the count is that. Raises TimeoutError."""
        await until_found(self.db, rows, sql, *arguments, within_s=WITHIN_S)

    async def until_taken(self, events: Iterable[str], dag_id: str = "d") -> None:
        """Until runs have all of them. Raises TimeoutError."""
        wanted = set(events)

        async def taken() -> bool:
            return wanted <= set().union(*await self.runs(dag_id))

        await until(taken, WITHIN_S)

    async def audit(self) -> Report:
        async with connect(self._dsn) as database:
            return await audit_ledger(database.autocommit, 10)


@asynccontextmanager
async def two_daemons(
    dsn: str, kafka: str, prefix: str, home: Path, dag_file: str, *, replication: int = 1, **given: object
) -> AsyncIterator[DaemonPair]:
    """They are at work when it begins, and end in good order when it does. In the file `{home}` is the test's folder.

    Some settings may be `given`.
    """
    await make_topics(kafka, prefix, replication)
    (home / "dags").mkdir()
    (home / "dags" / "dags.py").write_text(dag_file.replace("{home}", str(home)))
    async with AsyncExitStack() as stack:
        db = await asyncpg.connect(dsn)
        stack.push_async_callback(db.close)
        producer = await stack.enter_async_context(AIOKafkaProducer(bootstrap_servers=kafka, acks="all"))
        servers = {"postgres_dsn": dsn, "kafka_servers": kafka, "topic_prefix": prefix}
        pair = DaemonPair(dsn, db, producer, prefix, home, {**servers, **given})
        stack.callback(end_runners, home / "spool")
        stack.push_async_callback(pair.stop)
        await pair.start()
        await until(lambda: _at_work(db), READY_S)
        yield pair


async def make_topics(kafka: str, prefix: str, replication: int = 1) -> None:
    """The missing ones."""
    await topics.create(kafka, prefix, 1, replication)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    try:
        await admin.create_partitions({topics.name(prefix, Kind.DATASET_UPDATED): NewPartitions(PARTITIONS)})
    finally:
        await admin.close()


async def _at_work(db: Connection) -> bool:
    return bool(await db.fetchval(AT_WORK, PARTITIONS))


async def _start(name: str, home: Path, given: Mapping[str, object]) -> Child:
    settings = {**SETTINGS, "dags_folder": home / "dags", "spool_dir": home / "spool", **given}
    env = {f"TIDEGATE_{key.upper()}": str(value) for key, value in settings.items()}
    log = home / f"daemon-{name}.log"
    return await fork_server.spawn("tidegate.daemon.cli.entry", ["daemon"], log=log, cwd=home, env={**os.environ, **env})


def flat(runs: Sequence[set[str]]) -> list[str]:
    """All that runs took, in order, as often as they did."""
    return sorted(event for run in runs for event in run)
