"""What a runner, and so every task, is given about Kafka."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.spark.test_spool import prepared
from tidegate.daemon.settings import Settings
from tidegate.daemon.spark.runner_backend import RunnerBackend

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
    spool.prepare(RunnerBackend("command", settings)._job(first.spec))

    job = spool.job()
    assert job is not None
    assert job.kafka_security == (settings.kafka_security if passed_on else None)
    assert b"canary" not in (spool.path / "spec.json").read_bytes()
