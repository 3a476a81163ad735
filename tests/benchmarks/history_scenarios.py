"""Scenario K: what the past costs."""

from functools import partial

from tests.benchmarks import peer
from tests.benchmarks.bench import Connection, bench, repeated
from tests.benchmarks.event_scenarios import ONE, SAMPLES, latency_ms
from tests.benchmarks.figures import Figure, percentiles, rate
from tests.benchmarks.task_scenarios import PARALLEL, WIDE, tasks_per_s
from tidegate.events import Publisher

RUNS, TASKS = 300_000, 10

PAST = f"""
INSERT INTO dag_file (path, parse_duration_s) VALUES ('past.py', 0);
INSERT INTO dag_version (id, dag_id, number, spec, path, digest, source)
SELECT 1000000 + n, 'past_' || n, 1, '{{"dag_id": "past"}}', 'past.py', '', '' FROM generate_series(0, 999) AS n;
INSERT INTO dag (dag_id, path, version_id, is_stale)
SELECT 'past_' || n, 'past.py', 1000000 + n, true FROM generate_series(0, 999) AS n;
INSERT INTO dag_run (
    dag_id, run_id, run_type, state, version_id, run_after, state_seq, task_seq, unfinished, start_date, end_date
)
SELECT 'past_' || n % 1000, 'r' || n, 'manual', 'success', 1000000 + n % 1000, now() - interval '1 s' * n, 3, 40, 0, now(), now()
FROM generate_series(1, {RUNS}) AS n;
INSERT INTO task_instance (dag_run_id, task_index, task_id, state, try_number, start_date, end_date)
SELECT run.id, task, 't' || task, 'success', 1, now(), now()
FROM dag_run AS run CROSS JOIN generate_series(0, {TASKS - 1}) AS task;
INSERT INTO submission (submission_id, dag_run_id, task_index, try_number, backend, state, ended_at)
SELECT gen_random_uuid(), dag_run_id, task_index, 1, 'command', 'succeeded', now() FROM task_instance;
INSERT INTO run_state_log (dag_run_id, seq, state, reason, at)
SELECT run.id, seq, 'success', '', now() FROM dag_run AS run CROSS JOIN generate_series(1, 3) AS seq;
"""


async def k(repeat: int) -> list[Figure]:
    """3,000,000 task instances have finished: latency (A) and throughput (E) beside those of an empty database, taken before."""
    figures = []
    for what, before in (("no history", ""), ("3,000,000 finished tasks", PAST)):
        figures += [*await _latency(repeat, what, before), await _throughput(repeat, what, before)]
    return figures


async def _filled(sql: str, connection: Connection) -> None:
    await connection.execute(WIDE)
    if sql:
        await connection.execute(sql, timeout=600)
        await connection.execute("VACUUM ANALYZE", timeout=600)


async def _latency(repeat: int, what: str, sql: str) -> list[Figure]:
    async with (
        bench(ONE, 1, prepare=partial(_filled, sql)) as ready,
        Publisher(ready.kafka.bootstrap, source="bench") as publisher,
    ):
        rounds = [[await latency_ms(ready, publisher) for _ in range(SAMPLES)] for _ in range(repeat + 1)][1:]
    return percentiles("K", f"A, {what}", rounds, [(50, peer.NONE, None)])


async def _throughput(repeat: int, what: str, sql: str) -> Figure:
    async with bench(PARALLEL, 100, instant=True, prepare=partial(_filled, sql)) as ready:
        rates = await repeated(repeat, partial(tasks_per_s, ready, runs=100, tasks=1000))
    return rate("K", f"E, side by side, {what}", "tasks/s", rates, peer.NONE, None)
