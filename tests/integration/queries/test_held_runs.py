"""What a held DAG leaves open costs the statements that run all the time some lookups for each row."""

import json
from typing import Any

import asyncpg
import pytest

from tests.integration.queries.blocks import BLOCKS
from tests.integration.queries.test_plans import SAMPLES, nodes_of
from tidegate.daemon.postgres.session_settings import SERVER_SETTINGS
from tidegate.schemas.queries import clock

RUNS = 300
DAGS = """
INSERT INTO dag_file (path, digest, parse_duration_s) VALUES ('dags.py', 'd', 0);
INSERT INTO dag (dag_id, path, version_id) SELECT 'dag_' || n, 'dags.py', 1 FROM generate_series(1, 100) AS n;
ANALYZE;
"""
OPEN = f"""
UPDATE dag SET held_since = now() WHERE dag_id = 'dag_1';
INSERT INTO dag_run (dag_id, run_id, run_type, state, version_id, run_after, state_seq, unfinished, times_out_at)
SELECT 'dag_1', n, 'manual', 'running', 1, now(), 1, 1, now() FROM generate_series(1, {RUNS}) AS n;
INSERT INTO run_to_reconsider (dag_run_id) SELECT id FROM dag_run;
INSERT INTO task_instance (dag_run_id, task_index, task_id, state, next_try_at)
SELECT id, n, n, 'up_for_retry', now() FROM dag_run, generate_series(1, 10) AS n;
INSERT INTO deadline (dag_run_id, name, due_at) SELECT id, n, now() FROM dag_run, generate_series(1, 10) AS n;
INSERT INTO submission (
    submission_id, dag_run_id, task_index, try_number, backend, state, desired_state, created_at, submitted_at, times_out_at
)
SELECT
    gen_random_uuid(), run.id, n, 1, 'command', attempt.state::submission_state, desired, now() - interval '1 h',
    now() - interval '1 h', now()
FROM dag_run AS run CROSS JOIN (
    VALUES (1, 'intent', 'run'), (2, 'intent', 'kill'), (3, 'submitting', 'run'), (4, 'accepted', 'run')
) AS attempt (n, state, desired);
"""


@pytest.mark.parametrize(
    ("block", "arguments"),
    [
        ("clock.next_due", f"ARRAY{[*range(clock.SHARDS)]}, 'infinity', 1"),
        ("runs.to_reconsider", "100, '{{}}'"),
        ("submissions.killed_intents", "100"),
        ("submissions.claim_intents", "{me}, 'here', 'command', 8, {none}, {none}"),
        ("submissions.claim_abandoned", "{me}, 'here', 'command', NULL, {none}"),
        ("submissions.silent", "60, NULL, 100"),
        ("submissions.stuck", "60, 100"),
    ],
)
async def test_the_open_rows_of_a_held_dag_are_not_compared_with_all_its_runs(schema: str, block: str, arguments: str) -> None:
    """A connection keeps the plans of the time when no DAG was held."""
    connection = await asyncpg.connect(schema, server_settings=SERVER_SETTINGS)
    work = connection.transaction()
    await work.start()
    await connection.execute(DAGS)
    await connection.execute(f"PREPARE hot AS {BLOCKS[block]}")
    call = f"EXECUTE hot ({arguments.format(**SAMPLES)})"
    await connection.execute(call)
    await connection.execute(OPEN)
    plan = json.loads(await connection.fetchval(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {call}"))[0]["Plan"]
    await work.rollback()
    await connection.close()

    assert plan["Actual Rows"] == 0
    assert max(map(rows_read, nodes_of(plan))) <= 20 * RUNS


async def test_the_clock_reads_no_held_dag(schema: str) -> None:
    connection = await asyncpg.connect(schema, server_settings=SERVER_SETTINGS)
    work = connection.transaction()
    await work.start()
    await connection.execute(f"PREPARE hot AS {BLOCKS['clock.dag']}")
    await connection.execute(f"{DAGS}; UPDATE dag SET held_since = now(), due_at = now()")
    call = f"EXECUTE hot (ARRAY{[*range(clock.SHARDS)]}, 'infinity', 1)"
    plan = json.loads(await connection.fetchval(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {call}"))[0]["Plan"]
    await work.rollback()
    await connection.close()

    assert [rows_read(node) for node in nodes_of(plan) if node.get("Relation Name") == "dag"] == [0]


def rows_read(node: dict[str, Any]) -> float:
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Join Filter", 0)
    return float((node["Actual Rows"] + removed) * node["Actual Loops"])
