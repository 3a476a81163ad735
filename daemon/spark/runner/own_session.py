"""A Spark session for tasks that run outside of a runner."""

from typing import Any

from tidegate.daemon.spark.runner.failure_reason import TaskError


class LazySession:
    """Stands for a session, which is opened at its first use: most tests of DAGs need none, and it takes seconds.

    Without the address of a Spark Connect server Spark runs in this process.
    """

    def __init__(self, remote: str) -> None:
        self._remote = remote
        self._session: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._session is None:
            self._session = _open(self._remote)
        return getattr(self._session, name)

    def close(self) -> None:
        """End a session of a server, which would wait for the server when this process exits. Spark in this process stays."""
        if self._session is not None and self._remote:
            self._session.stop()
            self._session = None


def _open(remote: str) -> Any:
    """Raises TaskError when pyspark is not installed."""
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - a test without Spark needs no pyspark
    except ImportError as error:
        raise TaskError(f"a task uses Spark, which needs tidegate[spark]: {error}") from error
    if remote:
        return SparkSession.builder.remote(remote).getOrCreate()
    local: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    return SparkSession.builder.master("local[2]").config(map=local).getOrCreate()
