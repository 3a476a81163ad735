"""What a runner, and so every task, is given about Kafka and Spark."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.spark.test_spool import prepared
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.job import job_of
from tidegate.daemon.spark.spool import Job
from tidegate.schemas.dag import FunctionTask, SubmitTask, TaskSpec
from tidegate.schemas.error import UnknownClusterError

LOGIN: dict[str, Any] = {"kafka_security_protocol": "SASL_SSL", "kafka_sasl_username": "alice"}


@pytest.mark.parametrize(
    ("secret", "passed_on"),
    [({"kafka_sasl_password_file": "/run/secrets/kafka"}, True), ({"kafka_sasl_password": "canary"}, False)],
)
def test_a_job_names_files_of_secrets_and_has_none_itself(tmp_path: Path, secret: dict[str, Any], passed_on: bool) -> None:
    first = prepared(tmp_path).job()
    assert first is not None
    settings = Settings(postgres_dsn="", kafka_servers="k:1", spool_dir=str(tmp_path), **LOGIN, **secret)

    spool = prepared(tmp_path)
    spool.prepare(job_of(settings, first.spec))

    job = spool.job()
    assert job is not None
    assert job.kafka_security == (settings.kafka_security if passed_on else None)
    assert b"canary" not in (spool.path / "spec.json").read_bytes()


CLUSTERS = '{"nightly": {"master": "spark://m1:7077", "remote": "sc://m1:15002"}}'


@pytest.mark.parametrize(
    ("task", "addresses"),
    [
        (FunctionTask(task_id="t"), ("local[2]", "sc://127.0.0.1:15002")),
        (FunctionTask(task_id="t", cluster="nightly"), ("spark://m1:7077", "sc://m1:15002")),
        (SubmitTask(task_id="t", application="a.py", cluster="nightly"), ("spark://m1:7077", "sc://m1:15002")),
    ],
)
def test_a_job_has_the_addresses_of_its_cluster(tmp_path: Path, task: TaskSpec, addresses: tuple[str, str]) -> None:
    job = _job(tmp_path, task)

    assert (job.spark_master, job.spark_remote) == addresses


def test_a_cluster_that_the_host_does_not_know_is_left_to_other_hosts(tmp_path: Path) -> None:
    with pytest.raises(UnknownClusterError) as refused:
        _job(tmp_path, FunctionTask(task_id="t", cluster="other"))

    assert str(refused.value) == "cluster 'other' is not in TIDEGATE_SPARK_CLUSTERS; there are nightly (on host worker)"


def _job(root: Path, task: TaskSpec) -> Job:
    first = prepared(root).job()
    assert first is not None
    settings = Settings(postgres_dsn="", kafka_servers="k:1", host="worker", spool_dir=str(root), spark_clusters=CLUSTERS)
    return job_of(settings, msgspec.structs.replace(first.spec, task=task))
