"""A database with 100,000 DAGs and 1,000,000 runs, or a share of it."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.benchmarks.bench import Connection
from tidegate.schemas.authoring.build import build

FILL_S = 1800
WIDE = 2000

DAGS = f"""
from tidegate import Dag, Dataset, cron

def chain(dag, **options):
    dag.command("extract", ["true"]) >> dag.command("load", ["true"]) >> dag.command("report", ["true"], **options)

with Dag("timed", schedule=cron("0 6 * * *"), catchup=False, tags=["team"], description="A plain one") as timed:
    chain(timed)
with Dag("consumer", schedule=Dataset("lake://input")) as consumer:
    chain(consumer, outlets=[Dataset("lake://output")])
with Dag("manual") as manual:
    chain(manual)
with Dag("hot", schedule=cron("*/4 * * * *"), catchup=False) as hot:
    chain(hot)
with Dag("backlog", schedule=Dataset("lake://area_0/table_000000") & Dataset("lake://area_1/table_000001")) as backlog:
    chain(backlog)
with Dag("wide") as wide:
    for group in range({WIDE // 100}):
        with wide.group(f"group_{{group}}"):
            first = wide.command(f"task_{{group * 100}}", ["true"])
            for task in range(group * 100 + 1, group * 100 + 100):
                first >> wide.command(f"task_{{task}}", ["true"])
"""

NAMED = ("timed", "consumer", "manual")
"""The templates of many DAGs: each gets an id of its own."""

FACTS = """
    SELECT
        (SELECT run_id FROM dag_run WHERE dag_id = 'hot' AND state = 'failed' ORDER BY id DESC LIMIT 1) AS failed,
        (SELECT run_id FROM dag_run WHERE dag_id = 'hot' AND state = 'running' ORDER BY id DESC LIMIT 1) AS running,
        (SELECT run_id FROM dag_run WHERE dag_id = 'wide' AND state = 'success' ORDER BY id DESC LIMIT 1) AS wide,
        (SELECT count(*) FROM plain) AS dags,
        (SELECT count(*) FROM dataset) AS datasets,
        (SELECT max(id) FROM dead_letter) AS letters,
        (SELECT max(id) FROM notification) AS notifications,
        (SELECT max(id) FROM deadline) AS deadlines,
        (SELECT max(id) FROM audit_log) AS audits,
        (SELECT max(dataset_event_id) FROM dagrun_dataset_event) AS event,
        (SELECT max(id) FROM dataset_event WHERE dataset_id = 1) AS hot_event,
        (SELECT max(id) FROM backfill) AS backfills,
        (SELECT max(id) FROM backfill WHERE state = 'running') AS running_backfill,
        (SELECT ARRAY[dag_id, run_id] FROM dag_run WHERE id = (SELECT max(id) / 2 FROM dag_run)) AS middle_run,
        (SELECT ARRAY[dag_id, run_id] FROM dag_run WHERE id = 2) AS early_run
"""


class Facts(msgspec.Struct, frozen=True):
    """Ids of runs of `hot` and `wide`, keys of runs in the middle and at the end of the list, and the last number of each."""

    failed: str
    running: str
    wide: str
    dags: int
    datasets: int
    letters: int
    notifications: int
    deadlines: int
    audits: int
    event: int
    hot_event: int
    backfills: int
    running_backfill: int
    middle_run: tuple[str, str]
    early_run: tuple[str, str]


async def fill(connection: Connection, scale: float) -> Facts:
    """Fill an empty database."""
    await connection.execute("SELECT set_config('bench.scale', $1, false)", str(scale))
    await connection.execute("CREATE TEMPORARY TABLE template (name text PRIMARY KEY, spec text)")
    await connection.executemany("INSERT INTO template VALUES ($1, $2)", [*_templates()])
    await connection.execute(Path(__file__).with_suffix(".sql").read_text(), timeout=FILL_S)
    await connection.execute("VACUUM ANALYZE", timeout=FILL_S)
    return msgspec.convert(dict(await connection.fetchrow(FACTS) or {}), Facts)


def _templates() -> Iterator[tuple[str, str]]:
    for dag in build(DAGS, "special.py"):
        spec = dag.spec()
        named = msgspec.structs.replace(spec, dag_id="DAG_ID") if spec.dag_id in NAMED else spec
        yield spec.dag_id, msgspec.json.encode(named).decode()
