"""A run is cancelled and cleared onto a newer version before its attempts are killed."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.acceptance.command import Command
from tests.acceptance.daemon_pair import two_daemons
from tests.waiting import until
from tidegate.daemon.postgres.database import connect
from tidegate.daemon.request import apply_request
from tidegate.daemon.standalone.process import Child
from tidegate.schemas.message import ClearRequested, RunEndRequested
from tidegate.schemas.state import RunState

HEADER = "from tidegate import Dag\nwith Dag('d') as dag:\n"
WORK = "trap 'until [ -e {home}/go ]; do sleep 0.1; done; exit 1' TERM; echo >> {home}/deaf; while :; do sleep 0.1; done"
FORMER = f"""{HEADER}
    for name in ("a", "b", "c"):
        dag.command(name, ["bash", "-c", {WORK!r}])
"""
NEWER = f"{HEADER}    dag.command('c', ['true'])\n"
WITHIN_S = 60.0


@contextmanager
def frozen(daemons: Sequence[Child]) -> Iterator[None]:
    for daemon in daemons:
        daemon.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for daemon in daemons:
            daemon.send_signal(signal.SIGCONT)


async def test_attempts_of_removed_tasks_end_no_daemon(dsn: str, kafka: str, topic_prefix: str, tmp_path: Path) -> None:
    command = Command(tmp_path, postgres_dsn=dsn, kafka_servers=kafka, topic_prefix=topic_prefix)
    async with two_daemons(dsn, kafka, topic_prefix, tmp_path, FORMER) as pair:
        await command("runs", "trigger", "d", "--run-id", "r1")
        await pair.until_rows(3, "SELECT count(*) FROM submission WHERE state = 'accepted'")
        await until(lambda: (tmp_path / "deaf").exists() and (tmp_path / "deaf").read_text() == "\n" * 3, WITHIN_S)
        (tmp_path / "dags" / "dags.py").write_text(NEWER)
        await pair.until_rows(2, "SELECT count(*) FROM dag_version")

        cancel = RunEndRequested(dag_id="d", run_id="r1", state=RunState.FAILED, reason="cancelled")
        with frozen(pair.daemons):  # a runner kills its task for good 5 s after a daemon has asked it to end
            async with connect(dsn) as database:
                await apply_request(database, cancel)
                await apply_request(database, ClearRequested(dag_id="d", run_id="r1", newest_version=True))
            going = await pair.db.fetchval("SELECT count(*) FROM submission WHERE task_index < 0 AND ended_at IS NULL")
        (tmp_path / "go").touch()
        await until(lambda: pair.db.fetchval("SELECT state = 'success' FROM dag_run"), WITHIN_S)
        await pair.until_rows(0, "SELECT count(*) FROM submission WHERE ended_at IS NULL")

        assert [daemon.alive for daemon in pair.daemons] == [True, True]
        assert going == 2
