"""A Spark Connect session per submission, with the submission's id, so that any process can end it."""

import logging
import socket
import threading
import time
from urllib.parse import urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.client.retries import DefaultPolicy

from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.spool import Job

log = logging.getLogger("tidegate")

DEFAULT_PORT = 15002
PATIENCE_S = 30.0
END_S = 5.0
RETRIES = 7
"""About a minute, for network faults. A restarted server has lost the session, and retries cannot help."""


def begin(job: Job) -> SparkSession:
    """Raises TaskError when the server does not answer."""
    await_server(job.spark_remote)
    spark: SparkSession = SparkSession.builder.remote(address(job)).getOrCreate()
    spark.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES)])
    spark.addTag(f"tidegate-{job.spec.submission_id}")
    return spark


def end(job: Job) -> None:
    """Interrupt the session and close it, from any process; gives up after `END_S`."""
    ending = threading.Thread(target=_end, args=(job,), name="session", daemon=True)
    ending.start()
    ending.join(END_S)


def address(job: Job) -> str:
    """The server's address with the session id added to the operator's parameters."""
    server, _, parameters = job.spark_remote.partition("/;")
    given = [parameter for parameter in parameters.split(";") if parameter]
    if not any(parameter.startswith("user_id=") for parameter in given):
        given.append("user_id=tidegate")
    return f"{server.rstrip('/')}/;{';'.join([*given, f'session_id={job.spec.submission_id}'])}"


def _end(job: Job) -> None:
    try:
        client = SparkConnectClient(connection=address(job))
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


def await_server(remote: str) -> None:
    """Fails fast: the client would retry silently for ten minutes."""
    url = urlsplit(remote)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection((url.hostname or "localhost", url.port or DEFAULT_PORT), timeout=PATIENCE_S).close()
        except OSError as error:
            if time.monotonic() > deadline:
                raise TaskError(
                    f"Spark Connect does not answer at {remote.partition('/;')[0]}: {error.strerror or error}"
                ) from error
            time.sleep(0.5)
        else:
            return
