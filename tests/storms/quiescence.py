"""Waiting for the daemons of a storm: until they know the DAGs, and until they have nothing left to do."""

from collections.abc import Awaitable, Callable, Mapping

import anyio
import asyncpg
from aiokafka import AIOKafkaConsumer, TopicPartition

from tidegate.schemas.dag import AWAITED_DIGEST, REPEAT_DIGEST

LOOK_EVERY_S = 0.5

LEFT = """
SELECT EXISTS (SELECT FROM outbox)
    OR EXISTS (SELECT FROM dag_run WHERE state IN ('queued', 'running'))
    OR EXISTS (SELECT FROM submission WHERE state IN ('intent', 'submitting', 'accepted'))
    OR EXISTS (SELECT FROM deadline WHERE met_at IS NULL AND missed_at IS NULL)
    OR EXISTS (SELECT FROM dag WHERE due_at <= clock_timestamp())
    OR EXISTS (SELECT FROM deferred_dag)
"""

PROBLEM = "SELECT reason FROM import_error JOIN dag_file USING (path) WHERE digest <> ALL ($1::text[])"
"""Of a file that was parsed: one that is still being parsed, on a busy machine, has a provisional error."""


async def until(holds: Callable[[], Awaitable[bool]], within_s: float) -> None:
    """Two times in a row. Raises TimeoutError."""
    times = 0
    with anyio.fail_after(within_s):
        while times < 2:
            await anyio.sleep(LOOK_EVERY_S)
            times = times + 1 if await holds() else 0


async def knows_dags(dsn: str, count: int) -> bool:
    """Raises ValueError when a file of the storm has no DAGs."""
    db = await asyncpg.connect(dsn)
    try:
        if problem := await db.fetchval(PROBLEM, [REPEAT_DIGEST, AWAITED_DIGEST]):
            raise ValueError(problem)
        return bool(await db.fetchval("SELECT count(*) FROM dag") == count)
    finally:
        await db.close()


async def at_rest(dsn: str, servers: str) -> bool:
    """Nothing is under way, and everything in the topics is read."""
    db = await asyncpg.connect(dsn)
    try:
        if await db.fetchval(LEFT):
            return False
        stands = {row[0]: row[1] for row in await db.fetch("SELECT key, next_offset FROM lease WHERE kind = 'partition'")}
    finally:
        await db.close()
    return stands == await _ends_of_logs(servers, stands)


async def _ends_of_logs(servers: str, keys: Mapping[str, int]) -> Mapping[str, int]:
    consumer = AIOKafkaConsumer(bootstrap_servers=servers)
    await consumer.start()
    try:
        partitions = [TopicPartition(topic, int(number)) for topic, _, number in (key.rpartition("/") for key in keys)]
        return {f"{tp.topic}/{tp.partition}": end for tp, end in (await consumer.end_offsets(partitions)).items()}
    finally:
        await consumer.stop()
