"""A real Apache Kafka: a KRaft node that is broker and controller. A subclass may join it to a cluster."""

import os
import shutil
import signal
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import anyio
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError

from tidegate.daemon.standalone import jars, java
from tidegate.daemon.standalone.port import LOOPBACK, listens
from tidegate.daemon.standalone.process import Child, ServerError, inherited, spawn
from tidegate.daemon.standalone.server import Server, ending

MIB = 1024 * 1024
JVM = ("-XX:+UseSerialGC", java.NO_TRACES)
SHORT_LIVED = ("-XX:TieredStopAtLevel=1",)

PROPERTIES = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "message.max.bytes": str(8 * MIB),
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": str(32 * MIB),
}


class Kafka(Server):
    """A single node that accepts records up to 8 MiB, more than a daemon does.

    After a crash it is ready when the broker session of the crashed process has expired, after 3 s, and when it has read the last
    segments of all partitions again, of which it says nothing.
    """

    name: ClassVar[str] = "Kafka"
    ports_needed: ClassVar[int] = 2
    usual_s: ClassVar[float] = 600.0
    heap_mb: ClassVar[int] = 512
    format_options: ClassVar[tuple[str, ...]] = ()
    """Further options of StorageTool, such as `--add-scram`."""
    node = 1
    """The node id."""

    def __init__(self, home: Path, cache: Path) -> None:
        super().__init__(home)
        self._cache = cache
        self._data = self.home / "data"
        self._temporary = self.home / "tmp"
        self._config = self.home / "server.properties"
        self._java = Path()
        self._classpath = ""

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    async def _prepare(self) -> None:
        self._java = await java.find(os.environ)
        paths = await anyio.to_thread.run_sync(jars.resolve, self._cache, jars.locked())
        self._classpath = os.pathsep.join(map(str, paths))
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir()
        (self.home / "log4j2.properties").write_text(java.LOGGING)
        if not self._data.exists():
            await self._format()

    async def _format(self) -> None:
        """Format the storage in a temporary folder and rename it, so that it is never used incomplete."""
        unfinished = self.home / "data.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        self._configure(unfinished, (9092, 9093))
        arguments = ("format", f"--cluster-id={self._cluster()}", f"--config={self._config}", *self.format_options)
        child = await self._run(*SHORT_LIVED, "kafka.tools.StorageTool", *arguments)
        if await child.outcome() != 0:
            raise ServerError(f"Kafka's storage could not be formatted: StorageTool {ending(child)}{self._log_end(child)}")
        unfinished.rename(self._data)

    def _cluster(self) -> str:
        """The cluster id of the storage."""
        return new_cluster()

    def _configure(self, data: Path, chosen: tuple[int, ...]) -> None:
        self._config.write_text("".join(f"{key}={value}\n" for key, value in self._properties(data, chosen).items()))

    def _properties(self, data: Path, chosen: tuple[int, ...]) -> dict[str, str]:
        """The properties of the node. The first port is for clients, the second for controllers."""
        broker, controller = (f"{LOOPBACK}:{port}" for port in chosen)
        return {
            **PROPERTIES,
            "node.id": str(self.node),
            "log.dirs": str(data),
            "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{broker}",
            "controller.quorum.voters": f"{self.node}@{controller}",
        }

    async def _spawn(self, chosen: tuple[int, ...]) -> Child:
        self._configure(self._data, chosen)
        return await self._run("kafka.Kafka", str(self._config))

    async def _run(self, *arguments: str) -> Child:
        logging = f"-Dlog4j2.configurationFile={self.home / 'log4j2.properties'}"
        temporary = f"-Djava.io.tmpdir={self._temporary}"
        return await spawn(
            (str(self._java), f"-Xmx{self.heap_mb}m", *JVM, logging, temporary, "-cp", self._classpath, *arguments),
            log=self.log,
            cwd=self.home,
            env=inherited(),
            on_orphaned=signal.SIGKILL,
        )

    async def _answers(self, child: Child, port: int) -> bool:
        """Whether the broker has joined its cluster; it listens before that, but accepts no topics or records."""
        if not listens(child.pid, port):
            return False
        client = AIOKafkaClient(bootstrap_servers=f"{LOOPBACK}:{port}", request_timeout_ms=5000)
        try:
            await client.bootstrap()
            return client.cluster.broker_metadata(self.node) is not None
        except KafkaError:
            return False
        finally:
            with anyio.CancelScope(shield=True):
                await client.close()


def new_cluster() -> str:
    """A new cluster id."""
    return urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
