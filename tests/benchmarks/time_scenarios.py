"""Scenarios about the clock."""

from datetime import UTC, datetime

import anyio

from tests.benchmarks import peer
from tests.benchmarks.bench import Bench, bench
from tests.benchmarks.figures import Figure, percentiles

EVERY_S = 20
DAGS = 1000

DUE = f"""
from tidegate import Dag

for number in range({DAGS}):
    with Dag(f"timed_{{number}}", schedule="* * * * * */{EVERY_S}", max_active_runs=1000) as dag:
        dag.empty("noop")
"""

NEWEST_RUN = "SELECT coalesce(max(id), 0) FROM dag_run"
NEWER_RUNS = "SELECT count(*) FROM dag_run WHERE id > $1"
LOOK_EVERY_S = 0.01


async def h(repeat: int) -> list[Figure]:
    """1,000 DAGs due at one moment: how late their runs are made."""
    async with bench(DUE, DAGS) as ready:
        rounds = [await _lateness_ms(ready) for _ in range(repeat + 1)][1:]
    wanted = ((50, peer.DUE_MS, 300), (95, peer.DUE_P95_MS, 300))
    return percentiles("H", "1,000 DAGs due at once: lateness of a run", rounds, wanted)


async def _lateness_ms(ready: Bench) -> list[float]:
    """How long after the next moment at which all are due each of the runs is seen by another connection."""
    now = datetime.now(UTC)
    moment = datetime.fromtimestamp((now.timestamp() // EVERY_S + 1) * EVERY_S, UTC)
    await anyio.sleep((moment - now).total_seconds() - 0.5)
    before = await ready.value(NEWEST_RUN)
    late_ms: list[float] = []
    with anyio.fail_after(EVERY_S):
        while len(late_ms) < DAGS:
            found = await ready.value(NEWER_RUNS, before)
            late_ms += [(datetime.now(UTC) - moment).total_seconds() * 1000] * (found - len(late_ms))
            await anyio.sleep(LOOK_EVERY_S)
    return late_ms
