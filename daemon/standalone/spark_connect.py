"""A real Spark Connect server from the installed pyspark."""

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import ClassVar

import anyio

from tidegate.daemon.standalone import java
from tidegate.daemon.standalone.port import LOOPBACK, listens
from tidegate.daemon.standalone.process import Child, inherited, installed, spawn
from tidegate.daemon.standalone.server import Server

SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
KEEP = "12h"

CONF = {
    "spark.connect.grpc.binding.address": LOOPBACK,
    "spark.connect.execute.manager.detachedTimeout": KEEP,
    "spark.connect.session.manager.defaultSessionTimeout": KEEP,
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
}
HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000 04 00 00000000")
SETTINGS_FRAME = 4


class SparkConnect(Server):
    """Keeps detached queries and idle sessions for 12 hours, longer than a restart of the daemon."""

    name: ClassVar[str] = "Spark Connect"
    usual_s: ClassVar[float] = 180.0
    unanswered = (OSError, TimeoutError, IndexError, anyio.EndOfStream, anyio.BrokenResourceError)

    def __init__(self, home: Path, *, master: str = "local[2]") -> None:
        super().__init__(home)
        self._master = master
        self._conf = self.home / "conf"
        self._temporary = self.home / "tmp"

    @property
    def url(self) -> str:
        return f"sc://{LOOPBACK}:{self.port}"

    async def _prepare(self) -> None:
        """Empties the temporary folder, where a killed server leaves files."""
        await java.find(os.environ)
        shutil.rmtree(self._temporary, ignore_errors=True)
        for folder in (self._temporary, self._conf):
            folder.mkdir(parents=True, exist_ok=True)
        (self._conf / "log4j2.properties").write_text(java.LOGGING)

    async def _spawn(self, chosen: tuple[int, ...]) -> Child:
        spark = installed("pyspark", "Spark")
        command = (
            str(spark / "bin" / "spark-submit"),
            f"--master={self._master}",
            "--driver-memory=1g",
            *self._options(chosen[0]),
        )
        return await spawn(
            (*command, f"--class={SERVER_CLASS}", "spark-internal"),
            log=self.log,
            cwd=self.home,
            env=self._environment(spark),
            on_orphaned=signal.SIGKILL,
        )

    def _options(self, port: int) -> list[str]:
        conf = {
            **CONF,
            "spark.connect.grpc.binding.port": str(port),
            "spark.local.dir": str(self._temporary),
            "spark.sql.warehouse.dir": str(self.home / "warehouse"),
        }
        jvm = f"{java.NO_TRACES} -Djava.io.tmpdir={self._temporary} -Dderby.system.home={self.home}"
        return [f"--driver-java-options={jvm}", *(f"--conf={key}={value}" for key, value in conf.items())]

    def _environment(self, spark: Path) -> dict[str, str]:
        """Without the settings of other Spark installations on the machine."""
        env = {key: value for key, value in inherited().items() if not key.startswith(("SPARK_", "PYSPARK_"))}
        return {
            **env,
            "SPARK_HOME": str(spark),
            "SPARK_CONF_DIR": str(self._conf),
            "SPARK_LAUNCHER_OPTS": java.NO_TRACES,
            "SPARK_LOCAL_IP": LOOPBACK,
            "PYSPARK_PYTHON": sys.executable,
        }

    async def _answers(self, child: Child, port: int) -> bool:
        """Whether gRPC answers an HTTP/2 preface; the server listens only after its Spark session is ready."""
        if not listens(child.pid, port):
            return False
        with anyio.fail_after(5):
            async with await anyio.connect_tcp(LOOPBACK, port) as stream:
                await stream.send(HTTP2_HELLO)
                return (await stream.receive(9))[3] == SETTINGS_FRAME
