"""The Kafka and the Spark Connect of a run: started when the first test asks, in the process that leads the run.

A worker of pytest-xdist asks over a socket, so that all workers have the same servers.
"""

import os
import shutil
import socket
import tempfile
from contextlib import ExitStack
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Lock, Thread

from anyio.from_thread import BlockingPortal, start_blocking_portal

from tests.servers import killed_in_the_end
from tidegate.daemon.standalone.kafka import Kafka
from tidegate.daemon.standalone.port import LOOPBACK
from tidegate.daemon.standalone.process import ServerError
from tidegate.daemon.standalone.spark_connect import SparkConnect

KAFKA, SPARK_CONNECT = "Kafka", "Spark Connect"
FAILED = "failed: "
ADDRESS = "TEST_SERVERS"

CHOSEN = {
    "log.cleaner.backoff.ms": "500",
    "metadata.max.idle.interval.ms": "0",
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
}
"""The last two are the defaults of Kafka: only of a broker that crashes must the controller know soon."""


class SharedKafka(Kafka):
    """Compacts within seconds what may be compacted. It lives as long as the run, so it does half as much while no test asks."""

    def _properties(self, data: Path, chosen: tuple[int, ...]) -> dict[str, str]:
        return super()._properties(data, chosen) | CHOSEN


class SharedServers:
    """Servers by name, all killed by `close`."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._stack = ExitStack()
        self._lock = Lock()
        self._portal: BlockingPortal | None = None
        self._started: dict[str, str] = {}

    def address_of(self, name: str) -> str:
        """Raises ServerError where it cannot start."""
        with self._lock:
            if name not in self._started:
                self._started[name] = self._start(name)
            return self._started[name]

    def _start(self, name: str) -> str:
        if self._portal is None:
            self._portal = self._stack.enter_context(start_blocking_portal())
        home = Path(tempfile.mkdtemp(prefix="shared-"))
        self._stack.callback(shutil.rmtree, home)
        server = SharedKafka(home, self._cache) if name == KAFKA else SparkConnect(home)
        self._stack.enter_context(self._portal.wrap_async_context_manager(killed_in_the_end(server)))
        return server.bootstrap if isinstance(server, Kafka) else server.url

    def listen(self) -> None:
        """Answer workers, which find the address in their environment, until `close`."""
        listener = _Listener((LOOPBACK, 0), _Answer)
        listener.servers = self
        self._stack.callback(listener.server_close)
        self._stack.callback(listener.shutdown)
        Thread(target=listener.serve_forever, daemon=True).start()
        os.environ[ADDRESS] = f"{LOOPBACK}:{listener.server_address[1]}"

    def close(self) -> None:
        self._stack.close()


class _Listener(ThreadingTCPServer):
    daemon_threads = True
    servers: SharedServers


class _Answer(StreamRequestHandler):
    """One line is the name of a server, the answer its address."""

    server: _Listener

    def handle(self) -> None:
        name = self.rfile.readline().decode().strip()
        try:
            answer = self.server.servers.address_of(name)
        except (ServerError, OSError) as error:
            answer = FAILED + str(error)
        self.wfile.write(answer.encode())


def address_of(name: str, own: SharedServers) -> str:
    """Of a worker, the one that the leading process has. Raises ServerError where it could not start."""
    if ADDRESS not in os.environ:
        return own.address_of(name)
    host, _, port = os.environ[ADDRESS].rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"{name}\n".encode())
        with connection.makefile() as file:
            answer = file.read()
    if answer.startswith(FAILED) or not answer:
        raise ServerError(answer.removeprefix(FAILED) or f"{name} did not start")
    return answer
