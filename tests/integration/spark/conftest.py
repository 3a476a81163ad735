"""A DAG folder, a spool and real servers for the backends; afterwards nothing of any submission may run."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from anyio.from_thread import BlockingPortal

from tests.integration.spark.submissions import APPLICATION, LONG_S, WORK, Bench, until_nothing_runs
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark import runner_backend
from tidegate.daemon.spark.process import end_all
from tidegate.events import topics


@pytest.fixture(scope="session")
def prefix(portal: BlockingPortal, broker: str) -> str:
    """Topics for all of these tests together."""
    prefix = f"spark-{uuid4().hex[:8]}."
    portal.call(topics.create, broker, prefix, 1, 1)
    return prefix


@pytest.fixture
def host(broker: str, prefix: str, spark_connect: str, tmp_path: Path) -> Settings:
    dags = tmp_path / "dags"
    dags.mkdir()
    (tmp_path / "secrets").mkdir()
    shutil.copy(WORK, dags)
    (dags / "application.py").write_text(APPLICATION)
    return Settings(
        postgres_dsn="postgresql://unused",
        kafka_servers=broker,
        topic_prefix=prefix,
        dags_folder=str(dags),
        spool_dir=str(tmp_path / "spool"),
        secrets_dir=str(tmp_path / "secrets"),
        spark_remote=spark_connect,
        runner_heartbeat_s=0.2,
    )


@pytest.fixture
async def bench(host: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """Runners have all the time that they need to end, however busy the machine is."""
    monkeypatch.setattr(runner_backend, "KILL_GRACE_S", LONG_S)
    bench = Bench(host)
    yield bench
    try:
        for submission_id in bench.submitted:
            await until_nothing_runs(submission_id)
    finally:
        for submission_id in bench.submitted:
            end_all(submission_id, 0)
