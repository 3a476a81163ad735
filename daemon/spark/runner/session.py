"""A Spark Connect session per submission, with the submission's id, so that any process can end it."""

import logging
import socket
import threading
import time
from urllib.parse import urlsplit
from uuid import UUID

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.client.retries import DefaultPolicy

from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.spool import Job

log = logging.getLogger("tidegate")

DEFAULT_PORT = 15002
PATIENCE_S = 30.0

EARLIER_S = 60.0
"""How long a server may take to end the session of an earlier try. A statement would hardly begin sooner on such a server."""

RETRIES = 7
"""About a minute, for network faults. A restarted server has lost the session, and retries cannot help."""


def begin(job: Job) -> SparkSession:
    """Ends what earlier tries left: the host of one can be lost, or the server was too busy when another was killed.

    Raises TaskError when the server does not answer.
    """
    await_server(job.spark_remote)
    for earlier in job.spec.earlier:
        _end_within(EARLIER_S, address(job, earlier))
    spark: SparkSession = SparkSession.builder.remote(address(job)).getOrCreate()
    spark.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES)])
    spark.addTag(f"tidegate-{job.spec.submission_id}")
    return spark


def end(job: Job, within_s: float) -> None:
    """Interrupt the session and close it, from any process; gives up after `within_s`, and says so."""
    _end_within(within_s, address(job))


def _end_within(within_s: float, remote: str) -> None:
    ending = threading.Thread(target=_end, args=(remote,), name="session", daemon=True)
    ending.start()
    ending.join(within_s)
    if ending.is_alive():
        log.warning("the Spark server did not end the session within %g s: its statements may go on there", within_s)


def address(job: Job, submission_id: UUID | None = None) -> str:
    """The server's address with the id of the session, this one's by default, added to the operator's parameters."""
    server, _, parameters = job.spark_remote.partition("/;")
    given = [parameter for parameter in parameters.split(";") if parameter]
    if not any(parameter.startswith("user_id=") for parameter in given):
        given.append("user_id=tidegate")
    return f"{server.rstrip('/')}/;{';'.join([*given, f'session_id={submission_id or job.spec.submission_id}'])}"


def _end(remote: str) -> None:
    try:
        client = SparkConnectClient(connection=remote)
    except PySparkException as error:
        log.debug("the session has not begun: %s", error)
        return
    client.set_retry_policies([])
    try:
        client.interrupt_all()
        client.release_session()
    except PySparkException as error:
        log.debug("the session could not be ended: %s", error)
    finally:
        client.close()


def await_server(remote: str, patience_s: float | None = None) -> None:
    """Fails fast: the client would retry silently for ten minutes."""
    url = urlsplit(remote)
    deadline = time.monotonic() + (PATIENCE_S if patience_s is None else patience_s)
    while True:
        try:
            socket.create_connection((url.hostname or "localhost", url.port or DEFAULT_PORT), timeout=PATIENCE_S).close()
        except OSError as error:
            if time.monotonic() >= deadline:
                raise TaskError(
                    f"Spark Connect does not answer at {remote.partition('/;')[0]}: {error.strerror or error}"
                ) from error
            time.sleep(0.5)
        else:
            return
