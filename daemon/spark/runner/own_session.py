"""A Spark session for tasks that run outside of a runner."""

import os
from contextlib import closing
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from tidegate.daemon.spark.runner.failure_reason import TaskError

CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""pyspark sets it when it opens a session of a server, and then makes all columns for servers."""


LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def own_session(remote: str, advice: str = "") -> "closing[LazySession]":
    """The session of tasks that are given none, to close at the end of a `with` block. `advice`: what to do without an answer."""
    return closing(LazySession(remote, advice))


class LazySession:
    """Stands for a session, which is opened at its first use: most tests of DAGs need none, and it takes seconds.

    Without the address of a Spark Connect server Spark runs in this process.
    """

    def __init__(self, remote: str, advice: str = "") -> None:
        self._remote, self._advice = remote, advice
        self._session: Any = None
        self._was_in_connect_mode = CONNECT_MODE in os.environ

    def __getattr__(self, name: str) -> Any:
        if self._session is None:
            self._session = _open(self._remote, self._advice)
        return getattr(self._session, name)

    def close(self) -> None:
        """End a session of a server, which would wait for the server when this process exits. Spark in this process stays."""
        if self._session is not None and self._remote:
            self._session.stop()
            self._session = None
            if not self._was_in_connect_mode:
                os.environ.pop(CONNECT_MODE, None)


def _open(remote: str, advice: str) -> Any:
    """A new session of the server: that of the caller stays open. Raises TaskError without pyspark or an answer of the server."""
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - a test without Spark needs no pyspark
    except ImportError as error:
        raise TaskError(f"a task uses Spark, which needs tidegate[spark]: {error}") from error
    if not remote:
        return SparkSession.builder.master("local[2]").config(map=local_conf()).getOrCreate()
    _await(remote, advice)
    return SparkSession.builder.remote(remote).create()


def _await(remote: str, advice: str) -> None:
    """On this machine a refusal is final: a standalone has ended, whose address the shell still has."""
    from tidegate.daemon.spark.runner.session import await_server  # noqa: PLC0415 - it imports pyspark

    try:
        await_server(remote, 0 if urlsplit(remote).hostname in LOOPBACK else None)
    except TaskError as error:
        raise TaskError(f"{error}{advice}") from error


def local_conf() -> dict[str, Any]:
    """Settings of Spark in this process. Its tables are not in the working folder, which is the DAG folder."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": _warehouse().name,
    }


@cache
def _warehouse() -> "TemporaryDirectory[str]":
    """It is there as long as Spark in this process."""
    return TemporaryDirectory(prefix="tidegate-warehouse-", ignore_cleanup_errors=True)
