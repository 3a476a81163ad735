"""Sessions on Spark Connect servers: one that is away, and one with the session of an earlier try."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from uuid import UUID, uuid4

import grpc
import msgspec
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession

from tidegate.daemon.spark.contract import SubmissionSpec
from tidegate.daemon.spark.runner import session
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.runner.own_session import CONNECT_MODE
from tidegate.daemon.spark.spool import Job
from tidegate.schemas.dag import SqlTask
from tidegate.schemas.run import RunContext

ID = UUID("5d9f3a52-6d0e-5e0b-9d0a-0d8f4f0b7c11")


def job(remote: str) -> Job:
    run = RunContext(dag_id="d", run_id="r", run_type="manual", run_after=datetime.now(UTC), params={})
    return Job(
        spec=SubmissionSpec(
            submission_id=ID, try_number=1, task=SqlTask(task_id="q", sql="SELECT 1"), run=run, dag_path="d.py", source=""
        ),
        dags_folder="/dags",
        spark_remote=remote,
        spark_master="local",
        kafka_servers="127.0.0.1:9",
        topic_prefix="tidegate.",
        heartbeat_s=5,
    )


def test_a_server_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PATIENCE_S", 0.1)

    with pytest.raises(TaskError, match=r"^Spark Connect does not answer at sc://127\.0\.0\.1:9: Connection refused$"):
        session.begin(job("sc://127.0.0.1:9/;token=s3cret"))


class Unavailable(grpc.RpcError):  # type: ignore[misc]
    """What a client gets without a server."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "failed to connect"


def test_a_request_is_tried_again_until_its_server_has_refused_connections_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    at = iter([1.0, 1.0, 10.9, 11.0])  # twice at the first refusal, then at each
    monkeypatch.setattr(time, "monotonic", lambda: next(at))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        policy = session.ConnectPolicy(f"sc://127.0.0.1:{listener.getsockname()[1]}")
        answers = [policy.can_retry(Unavailable())]

    answers += [policy.can_retry(Unavailable()) for _ in range(3)]

    assert answers == [True, True, True, False]


def test_ending_a_session_on_a_server_that_is_away_returns() -> None:
    session.end(job("sc://127.0.0.1:9"), 5.0)


def test_a_session_that_a_server_does_not_end_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        session.end(job(f"sc://127.0.0.1:{deaf.getsockname()[1]}"), 0.1)

    assert caplog.messages == ["the session was not ended: it did not answer within 0.1 s"]


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("sc://host:15002", f"sc://host:15002/;user_id=tidegate;session_id={ID}"),
        ("sc://host:15002/", f"sc://host:15002/;user_id=tidegate;session_id={ID}"),
        ("sc://host/;token=x;user_id=ops", f"sc://host/;token=x;user_id=ops;session_id={ID}"),
    ],
)
def test_the_address_keeps_what_the_operator_chose_and_names_the_session(remote: str, address: str) -> None:
    assert session.address(job(remote)) == address


def test_a_session_ends_those_of_earlier_tries(spark_connect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host of an earlier try was lost, and its statement goes on."""
    monkeypatch.setenv(CONNECT_MODE, "1")  # as PySpark does, and leaves it to whatever this process starts later
    first = job(spark_connect)
    spec = msgspec.structs.replace(first.spec, submission_id=uuid4(), earlier=(ID,))
    left = SparkSession(session.address(first))
    endless = left.sql("SELECT count(*) FROM range(1000000) a CROSS JOIN range(1000000) b WHERE a.id + b.id = 1")
    with ThreadPoolExecutor(1) as pool:
        statement = pool.submit(endless.collect)
        try:
            session.begin(msgspec.structs.replace(first, spec=spec)).stop()

            assert isinstance(statement.exception(120), PySparkException)
        finally:
            session.end(first, 5.0)
    left.client.close()
