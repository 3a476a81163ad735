"""Records, commands and DAG files that would end any daemon that took them: two daemons refuse them, and all else goes on."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.acceptance.command import Command
from tests.acceptance.daemon_pair import DaemonPair, two_daemons
from tests.waiting import until

FILE = """
from datetime import timedelta
from tidegate import Dag, Dataset

with Dag("d", schedule=Dataset("s://a") & Dataset("s://b")) as dag:
    dag.empty("only")
with Dag("ticks", schedule="* * * * * *") as dag:
    dag.empty("only")
"""
LATE_FILE = """
from datetime import UTC, datetime
from tidegate import Dag

Dag("late", start_date=datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), schedule="@daily")
"""
TIMES = (
    b"0001-01-01T00:00:00Z",
    b"0001-01-01T00:00:00+14:00",
    b"1899-12-31T23:59:59Z",
    b"2200-01-01T00:00:01Z",
    b"9999-12-31T23:59:59.999999Z",
    b"9999-12-31T23:59:59-14:00",
)
RANGE = "from 1900-01-01 to 2200-01-01"
REFUSED = {
    ("--run-id", "scheduled__{tick}"): "run ids that begin with scheduled__ are reserved",
    ("--run-after", "9999-12-31T23:59:59.999999Z"): RANGE,
    ("--logical-date", "0001-01-01"): RANGE,
}
AHEAD_S = 8.0
"""The tick of the refused run id: later than the command, also on a busy host."""
WITHIN_S = 60.0
TIMED_RUNS = "SELECT count(*) FROM dag_run WHERE dag_id = 'ticks' AND state = 'success' AND logical_date > $1"


async def test_two_daemons_outlive_all_times_and_run_ids(dsn: str, kafka: str, topic_prefix: str, tmp_path: Path) -> None:
    command = Command(tmp_path, postgres_dsn=dsn, kafka_servers=kafka, topic_prefix=topic_prefix)
    async with two_daemons(dsn, kafka, topic_prefix, tmp_path, FILE) as pair:
        tick = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=AHEAD_S)
        await pair.send_at("s://a", *TIMES)
        (tmp_path / "dags" / "late.py").write_text(LATE_FILE)
        refused = [
            await command("runs", "trigger", "ticks", option, value.format(tick=tick.isoformat())) for option, value in REFUSED
        ]
        taken = await pair.send("s://a", "s://b")
        await pair.until_taken(taken)
        await _until_ticked(pair, tick)
        await pair.until_rows(len(TIMES), "SELECT count(*) FROM dead_letter")
        await pair.until_rows(1, "SELECT count(*) FROM import_error WHERE line = 5")  # while it is parsed there is another one

        letters = await command.answer("deadletters", "list")
        errors = await command.answer("dags", "errors")
        assert [daemon.alive for daemon in pair.daemons] == [True, True]
        assert await pair.runs() == [set(taken)]
    assert [(letter["reason"], RANGE in letter["message"]) for letter in letters] == [("invalid", True)] * len(TIMES)
    assert [says in ended.err for ended, says in zip(refused, REFUSED.values(), strict=True)] == [True] * len(REFUSED)
    assert [(error["path"], error["line"]) for error in errors] == [("late.py", 5)]


async def _until_ticked(pair: DaemonPair, beyond: datetime) -> None:
    async def ticked() -> bool:
        return bool(await pair.db.fetchval(TIMED_RUNS, beyond))

    await until(ticked, WITHIN_S)
