"""Two daemons, and rows that cannot be read or decided about: their DAGs are held, all others go on; a new file mends them."""

from datetime import UTC, datetime
from pathlib import Path

from tests.acceptance.daemon_pair import DaemonPair, two_daemons
from tests.waiting import until
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.request import apply_request
from tidegate.schemas.message import RunRequested

GOOD = """
from tidegate import Dag, Dataset

with Dag("d", schedule=Dataset("s://a")) as dag:
    dag.command("only", ["true"])
with Dag("bad_end") as dag:
    dag.command("only", ["sh", "-c", "until [ -e {home}/go ] || [ $((tries=tries+1)) -gt 2000 ]; do sleep 0.05; done"])
with Dag("ticks", schedule="* * * * * *") as dag:
    dag.empty("only")
"""
BAD = """
from tidegate import Dag, Dataset

for name in ("unknown_field", "nothing", "bad_tasks", "no_row"):
    with Dag(name, schedule=Dataset("s://a"), description="{description}") as dag:
        dag.empty("only")
with Dag("bad_ticks", schedule="* * * * * *", description="{description}") as dag:
    dag.empty("only")
"""
DAMAGES = (
    """UPDATE dag_version SET spec = spec || '{"surprise": 1}' WHERE dag_id = 'unknown_field'""",
    "UPDATE dag_version SET spec = '{}' WHERE dag_id = 'nothing'",
    """UPDATE dag_version SET spec = jsonb_set(spec, '{tasks}', '7') WHERE dag_id = 'bad_tasks'""",
    "DELETE FROM dag_version WHERE dag_id = 'no_row'",
    """UPDATE dag_version SET spec = jsonb_set(spec, '{timetable,timezone}', '"Mars/Base"') WHERE dag_id = 'bad_ticks'""",
)
NO_SUCH_INDEX = """
    UPDATE {table} SET task_index = 7 WHERE dag_run_id = (SELECT id FROM dag_run WHERE dag_id = 'bad_end')
"""
"""The record of the attempt's end raises: the version has one task."""

NAMES = {"unknown_field", "nothing", "bad_tasks", "no_row", "bad_ticks"}
HELD = "SELECT dag_id FROM dag WHERE held_since IS NOT NULL"
TICKED = "SELECT count(*) FROM dag_run WHERE dag_id = $1 AND state = 'success' AND run_type = 'scheduled' AND created_at > $2"
WITHIN_S = 60.0


async def test_two_daemons_hold_unreadable_dags_and_serve_the_others(
    dsn: str, kafka: str, topic_prefix: str, tmp_path: Path
) -> None:
    async with two_daemons(dsn, kafka, topic_prefix, tmp_path, GOOD) as pair:
        await pair.until_rows(1, "SELECT count(*) FROM dag WHERE dag_id = 'd'")
        (tmp_path / "dags" / "bad.py").write_text(BAD.format(description="first"))
        await pair.until_rows(len(NAMES), "SELECT count(*) FROM dag WHERE dag_id = ANY ($1)", list(NAMES))
        async with connect(dsn) as database:
            await apply_request(database, RunRequested(dag_id="bad_end", run_id="r1", conf={}))
        await pair.until_rows(1, "SELECT count(*) FROM submission WHERE state = 'accepted'")
        await pair.stop()  # the new processes have read none of the versions
        for damage in (*DAMAGES, *(NO_SUCH_INDEX.format(table=table) for table in ("task_instance", "submission"))):
            await pair.db.execute(damage)
        (tmp_path / "go").touch()
        await pair.start()

        sent = await pair.send("s://a")
        await pair.until_taken(sent)
        await pair.until_rows(1, "SELECT count(*) FROM dag_run WHERE dag_id = 'd' AND state = 'success'")
        await _until_held(pair, {*NAMES, "bad_end"})
        await _until_ticked(pair, "ticks")
        alive = [daemon.alive for daemon in pair.daemons]
        (tmp_path / "dags" / "bad.py").write_text(BAD.format(description="second"))
        await _until_held(pair, {"bad_end"})
        for name in NAMES - {"bad_ticks"}:
            await pair.until_taken(sent, name)
        await _until_ticked(pair, "bad_ticks")

        logs = "".join((tmp_path / f"daemon-{name}.log").read_text() for name in "ab")
        report = await pair.audit()
    assert alive == [True, True]
    hints = {name: logs.count(f'"hint": "tidegate dags why-not {name}"') for name in (*NAMES, "bad_end")}
    assert hints == dict.fromkeys((*NAMES, "bad_end"), 1), logs
    assert report.wrong == 0


async def _until_held(pair: DaemonPair, names: set[str]) -> None:
    async def held() -> bool:
        return {row[0] for row in await pair.db.fetch(HELD)} == names

    await until(held, WITHIN_S)


async def _until_ticked(pair: DaemonPair, dag_id: str) -> None:
    since = datetime.now(UTC)

    async def ticked() -> bool:
        return bool(await pair.db.fetchval(TICKED, dag_id, since))

    await until(ticked, WITHIN_S)
