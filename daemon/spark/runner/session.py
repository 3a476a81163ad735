"""A Spark Connect session per submission, with the submission's id, so that any process can end it."""

import logging
import re
import socket
import time
from urllib.parse import urlsplit
from uuid import UUID

from pyspark.errors import PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.client.retries import DefaultPolicy

from tidegate.daemon.spark.runner.failure_reason import TaskError, from_spark
from tidegate.daemon.spark.runner.server_tries import FinalError, Tries
from tidegate.daemon.spark.runner.spark_server import await_one, connect_server, shown
from tidegate.daemon.spark.spool import Job

log = logging.getLogger("tidegate")

DEFAULT_PORT = 15002
PATIENCE_S = 30.0

REFUSED_S = 10.0

_FINAL = re.compile(r"^(UNAUTHENTICATED|PERMISSION_DENIED|UNIMPLEMENTED)\b|[Hh]andshake failed|CERTIFICATE_VERIFY_FAILED")
"""Errors of gRPC that another try does not mend."""

UNKNOWN_SESSION = "INVALID_HANDLE.SESSION"
"""How the error classes of a session begin that the server has closed, or never had."""

EARLIER_S = 60.0
"""How long a server may take to end the session of an earlier try. A statement would hardly begin sooner on such a server."""

RETRIES = 7
"""Two minutes, for network faults. A restarted server has lost the session, and retries cannot help."""


class ConnectPolicy(DefaultPolicy):
    """Retries while the server may have the session: it has ended with one that refuses connections for `REFUSED_S`."""

    def __init__(self, remote: str) -> None:
        super().__init__(max_retries=RETRIES)
        self._remote = remote
        self._refused_at: float | None = None

    def can_retry(self, e: BaseException) -> bool:
        return bool(super().can_retry(e)) and not self._has_ended()

    def _has_ended(self) -> bool:
        try:
            _connect(self._remote, REFUSED_S).close()
        except ConnectionRefusedError:
            self._refused_at = self._refused_at or time.monotonic()
            return time.monotonic() - self._refused_at >= REFUSED_S
        except OSError:
            return False
        self._refused_at = None
        return False


def begin(job: Job) -> SparkSession:
    """Ends what earlier tries left: the host of one can be lost, or the server was too busy when another was killed.

    Raises TaskError when the server does not answer.
    """
    await_server(job.spark_remote)
    _require_answer(job)
    for earlier in job.spec.earlier:
        _end_within(address(job, earlier), EARLIER_S, again=False)
    spark: SparkSession = SparkSession.builder.remote(address(job)).getOrCreate()
    spark.client.set_retry_policies([ConnectPolicy(job.spark_remote)])
    spark.addTag(f"tidegate-{job.spec.submission_id}")
    return spark


def _require_answer(job: Job) -> None:
    """Open the session by a request that is tried for `PATIENCE_S`, and not after a refusal: the client would try for minutes.

    Raises TaskError with the status and the details of gRPC.
    """
    if problem := Tries(lambda: _ask(address(job))).problem(PATIENCE_S, again=True):
        raise TaskError(f"the Spark server {connect_server(job)} opened no session: {problem}")


def _ask(remote: str) -> str:
    """The problem of the connection; empty for an answer, also one that `begin` gets again and raises. Raises FinalError."""
    try:
        client = SparkConnectClient(connection=remote)
    except PySparkException:
        return ""
    client.set_retry_policies([])
    try:
        client.get_configs("spark.app.name")
    except SparkConnectGrpcException as error:
        problem = from_spark(str(error))
        if _FINAL.search(problem):
            raise FinalError(problem) from error
        return problem
    except PySparkException:
        return ""
    finally:
        client.close()
    return ""


def end(job: Job, within_s: float, *, again: bool = False) -> str:
    """Interrupt the session and close it, from any process; why it may go on, empty once the server has confirmed its end.

    Gives up after `within_s`. `again`: tries until then. A server that refuses connections has ended, and its sessions with it;
    with `again` it has to do so for `REFUSED_S`, because one that is behind a balancer may refuse some while it is busy.
    """
    problem = _end_within(address(job), within_s, again=again)
    return problem and f"its session on the Spark server {connect_server(job)} may go on: {problem}"


def _end_within(remote: str, within_s: float, *, again: bool) -> str:
    began = time.monotonic()

    def request() -> str:
        try:
            return _end(remote)
        except OSError as error:
            is_gone = isinstance(error, ConnectionRefusedError) and (not again or time.monotonic() - began > REFUSED_S)
            return "" if is_gone else error.strerror or str(error)

    if problem := Tries(request).problem(within_s, again=again):
        log.warning("the session was not ended: %s", problem)
    return problem


def address(job: Job, submission_id: UUID | None = None) -> str:
    """The server's address with the id of the session, this one's by default, added to the operator's parameters."""
    server, _, parameters = job.spark_remote.partition("/;")
    given = [parameter for parameter in parameters.split(";") if parameter]
    if not any(parameter.startswith("user_id=") for parameter in given):
        given.append("user_id=tidegate")
    return f"{server.rstrip('/')}/;{';'.join([*given, f'session_id={submission_id or job.spec.submission_id}'])}"


def _end(remote: str) -> str:
    """Why the server has not confirmed the end of the session; empty if it has. Raises OSError where nothing answers."""
    _connect(remote, REFUSED_S).close()
    try:
        client = SparkConnectClient(connection=remote)
    except PySparkException as error:
        log.debug("the session has not begun: %s", error)
        return ""
    client.set_retry_policies([])
    try:
        client.interrupt_all()
        client.release_session()
    except PySparkException as error:
        return "" if (error.getCondition() or "").startswith(UNKNOWN_SESSION) else from_spark(str(error))
    finally:
        client.close()
    return ""


def _connect(remote: str, within_s: float) -> socket.socket:
    url = urlsplit(remote)
    return socket.create_connection((url.hostname or "localhost", url.port or DEFAULT_PORT), timeout=within_s)


def await_server(remote: str, patience_s: float | None = None) -> None:
    """Fails fast: the client would retry silently for ten minutes."""
    if problem := await_one([remote], DEFAULT_PORT, PATIENCE_S if patience_s is None else patience_s):
        raise TaskError(f"Spark Connect does not answer at {shown(remote)}: {problem}")
