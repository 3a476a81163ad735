"""The Spark session of tests of DAGs."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tidegate.daemon.spark.runner import session
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.own_session import local_conf, own_session


def test_tables_of_spark_in_this_process_are_not_in_the_dag_folder() -> None:
    warehouse = Path(local_conf()["spark.sql.warehouse.dir"])

    assert warehouse.is_absolute()
    assert not warehouse.is_relative_to(Path.cwd())
    assert local_conf()["spark.sql.warehouse.dir"] == str(warehouse), "a second test in this process has another one"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_server_of_this_machine_that_has_ended_is_not_awaited(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = f"sc://{host}:1"
    monkeypatch.setattr(session, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: pytest.fail("it is awaited")))

    with own_session(f"{remote}/;token=secret", "; start it") as spark, pytest.raises(TaskError) as refused:
        spark.sql("SELECT 1")

    assert str(refused.value).startswith(f"Spark Connect does not answer at {remote}: ")
    assert str(refused.value).endswith("; start it")
    assert "secret" not in str(refused.value)
