"""Spark servers: their names in reasons, without credentials, and whether they answer."""

import socket
import time
from collections.abc import Iterable
from urllib.parse import urlsplit

from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.spool import Job
from tidegate.schemas.cluster import cluster_name

STANDALONE, MASTER_PORT = "spark://", 7077
CONNECT_S, PAUSE_S = 30.0, 0.5


def connect_server(job: Job) -> str:
    """`sc://m1:15002 of cluster 'nightly'`."""
    return shown(job.spark_remote) + _of_cluster(job)


def master(job: Job) -> str:
    """`spark://m1:7077 of cluster 'nightly'`."""
    return job.spark_master + _of_cluster(job)


def shown(remote: str) -> str:
    """An address of Spark Connect without its parameters and its user, which may be secret."""
    scheme, _, place = remote.partition("/;")[0].rpartition("://")
    return f"{scheme}://{place.rpartition('@')[2]}" if scheme else place


def await_master(job: Job, patience_s: float) -> None:
    """Raises TaskError where no master of a standalone cluster answers: Spark would try for minutes, and would not say so."""
    if not job.spark_master.startswith(STANDALONE):
        return
    places = job.spark_master.removeprefix(STANDALONE).split(",")
    if problem := await_one([f"//{place}" for place in places], MASTER_PORT, patience_s):
        raise TaskError(f"no master answers at {master(job)}: {problem}")


def await_one(urls: Iterable[str], port: int, patience_s: float) -> str:
    """Connect to one of these, again for a while; the problem of the last one, empty after a success. `port` is the default."""
    deadline, places = time.monotonic() + patience_s, [urlsplit(url) for url in urls]
    while True:
        for place in places:
            try:
                socket.create_connection((place.hostname or "localhost", place.port or port), timeout=CONNECT_S).close()
            except OSError as error:
                problem = error.strerror or str(error)
            else:
                return ""
        if time.monotonic() >= deadline:
            return problem
        time.sleep(PAUSE_S)


def _of_cluster(job: Job) -> str:
    name = cluster_name(job.spec.task)
    return f" of cluster {name!r}" if name else ""
