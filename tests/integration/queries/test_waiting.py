"""A hundred thousand tasks wait for a pool that is almost full: what is read for an admission does not grow with them."""

import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest
from anyio.from_thread import BlockingPortal

from tests import servers
from tests.integration.queries.blocks import BLOCKS
from tidegate.daemon.postgres.session_settings import SERVER_SETTINGS

# The statistics are of all rows: a random sample of them would decide about the plan.
WAITING = """
SET synchronous_commit = off;
SET default_statistics_target = 400;
ALTER TABLE task_instance SET UNLOGGED;
INSERT INTO pool (name, slots) VALUES ('narrow', 11);
INSERT INTO dag_file (path, digest, parse_duration_s) VALUES ('dags.py', 'd', 0);
INSERT INTO dag_version (dag_id, number, spec, path, digest, source)
SELECT 'dag_' || n, 1, jsonb_build_object('dag_id', 'dag_' || n), 'dags.py', 'd', '' FROM generate_series(1, 100) AS n;
INSERT INTO dag (dag_id, path, version_id) SELECT dag_id, path, id FROM dag_version;
INSERT INTO dag_run (
    id, dag_id, run_id, run_type, state, version_id, run_after, state_seq, unfinished, active_tasks, max_active_tasks
)
SELECT n, 'dag_' || n, 'r', 'manual', 'running', n, now(), 2, 1000, 1, {limit} FROM generate_series(1, 100) AS n;
INSERT INTO task_instance (dag_run_id, task_index, task_id, state, pool, scheduled_at, per_dag, per_run)
SELECT run, task, 't' || task, (CASE WHEN task = 0 AND run <= 10 THEN 'running' ELSE 'scheduled' END)::task_state, 'narrow',
    now() - make_interval(secs => run + task), nullif(task % 3, 0), nullif(task % 5, 0)
FROM generate_series(1, 100) AS run CROSS JOIN generate_series(0, 999) AS task;
ANALYZE;
"""

OCCUPIED, RUNS = 10, 100
ONE = "'narrow', 1, 1"
LOOKED_AT = [
    ("pools.pools_in_demand", "", 1),
    ("pools.read_pool", "'narrow'", OCCUPIED + 1),
    ("pools.occupied", "'narrow'", OCCUPIED),
    ("pools.active_everywhere", "", OCCUPIED),
    ("pools.missing_pools", "9", 1 + 9),
    ("pools.narrow_pools", "9", 9),
    ("tasks.ready", ONE, 1 + 2 * OCCUPIED),
    ("tasks.ready_behind", ONE, RUNS),
    ("starving.longest_waiting", "'narrow', now(), 9, 11, false", 1_000),
    ("starving.longest_waiting", "'narrow', now(), 9, 11, true", 10 * RUNS + 2 * OCCUPIED),
]
"""What is asked, and how many rows may be read for the answer: a limit of a task is counted among the tasks that occupy slots."""


@pytest.fixture(scope="module", params=[16, 1], ids=["every run has room", "no run has room"])
def queue(request: pytest.FixtureRequest, portal: BlockingPortal, postgres: str, template: str) -> Iterator[str]:
    """The dsn of a database where they wait."""
    name = portal.call(servers.create_database, postgres, template)
    portal.call(fill, servers.dsn_of(postgres, name), WAITING.format(limit=request.param))
    yield servers.dsn_of(postgres, name)
    portal.call(servers.drop_database, postgres, name)


async def fill(dsn: str, sql: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(sql)
    await connection.close()


@pytest.mark.parametrize(("block", "arguments", "most"), LOOKED_AT)
async def test_an_admission_reads_no_more_when_more_wait(queue: str, block: str, arguments: str, most: int) -> None:
    assert await rows_read(queue, block, arguments) <= most


async def rows_read(dsn: str, block: str, arguments: str) -> int:
    """By all scans of the plan that Postgres has settled on."""
    connection = await asyncpg.connect(dsn, server_settings=SERVER_SETTINGS)
    try:
        call = f"EXECUTE hot ({arguments})" if arguments else "EXECUTE hot"
        await connection.execute(f"PREPARE hot AS {BLOCKS[block]}")
        plan: str = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {call}")
    finally:
        await connection.close()
    return sum(map(_read, _nodes(json.loads(plan)[0]["Plan"])))


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def _read(node: dict[str, Any]) -> int:
    if node.get("Relation Name") != "task_instance":
        return 0
    dropped = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return int((node["Actual Rows"] + dropped) * node["Actual Loops"])
