"""The names of Spark servers in reasons, and what is said of one that does not answer."""

import socket
from pathlib import Path

import msgspec
import pytest

from tests.unit.spark.test_spool import prepared
from tidegate.daemon.spark.runner import spark_server
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.spool import Job
from tidegate.schemas.dag import SubmitTask


def job(root: Path, master: str = "local", remote: str = "sc://m", cluster: str = "") -> Job:
    found = prepared(root).job()
    assert found is not None
    spec = msgspec.structs.replace(found.spec, task=SubmitTask(task_id="t", application="a.py", cluster=cluster))
    return msgspec.structs.replace(found, spec=spec, spark_master=master, spark_remote=remote)


@pytest.mark.parametrize(
    ("remote", "cluster", "name"),
    [
        ("sc://m:1/;token=s3cret", "", "sc://m:1"),
        ("sc://ops:s3cret@m:1/;user_id=x", "nightly", "sc://m:1 of cluster 'nightly'"),
        ("", "", ""),
    ],
)
def test_a_server_is_named_without_credentials(remote: str, cluster: str, name: str, tmp_path: Path) -> None:
    assert spark_server.connect_server(job(tmp_path, remote=remote, cluster=cluster)) == name


def test_a_cluster_without_a_master_that_answers_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        TaskError, match=r"^no master answers at spark://127\.0\.0\.1:9,127\.0\.0\.1:9 of cluster 'b': Connection re"
    ):
        spark_server.await_master(job(tmp_path, "spark://127.0.0.1:9,127.0.0.1:9", cluster="b"), 0.0)


@pytest.mark.parametrize("master", ["local[2]", "yarn", "k8s://https://127.0.0.1:9"])
def test_other_clusters_are_left_to_spark(master: str, tmp_path: Path) -> None:
    spark_server.await_master(job(tmp_path, master), 0.0)


def test_one_master_of_several_is_enough(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        spark_server.await_master(job(tmp_path, f"spark://127.0.0.1:9,127.0.0.1:{listener.getsockname()[1]}"), 0.0)
