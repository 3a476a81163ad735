"""What systemd is told while a daemon starts, and what it leaves when it stops one."""

import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import psutil
import pytest

from tests.acceptance.command import Tidegate, environment
from tests.acceptance.running_daemon import RunningDaemon, as_text, spawn_daemon
from tests.documents import blocks, unit_of
from tests.servers import MakeSettings
from tidegate.daemon.spark.process import STAMP
from tidegate.daemon.standalone import port
from tidegate.daemon.standalone.process import Child, spawn
from tidegate.events import topics

WITHIN_S = 60.0
DAG = """
from tidegate import Dag

with Dag("waits") as dag:
    dag.command("wait", ["sh", "-c", "until [ -e {file} ]; do sleep 0.1; done"])
"""

Notified = Callable[[str], AbstractAsyncContextManager["Unit"]]


class Unit:
    """A daemon as systemd starts it, and the variables that it was told."""

    def __init__(self, daemon: Child, listener: socket.socket) -> None:
        self.daemon = daemon
        self.told: dict[str, str] = {}
        self._listener = listener

    async def until_told(self, name: str, text: str) -> None:
        with anyio.fail_after(WITHIN_S):
            while text not in self.told.get(name, ""):
                await anyio.sleep(0.05)
                self.listen()

    def listen(self) -> None:
        while True:
            try:
                message = self._listener.recv(4096)
            except BlockingIOError:
                return
            self.told |= dict(line.split("=", 1) for line in message.decode().splitlines())


@pytest.fixture
def notified(tmp_path: Path) -> Notified:
    @asynccontextmanager
    async def started(dsn: str) -> AsyncIterator[Unit]:
        (unused,) = port.choose(1)
        address = f"\0tidegate-{os.getpid()}-{unused}"
        settings = {"POSTGRES_DSN": dsn, "KAFKA_SERVERS": f"127.0.0.1:{unused}", "DAGS_FOLDER": str(tmp_path)}
        env = environment() | {f"TIDEGATE_{name}": value for name, value in settings.items()}
        env["NOTIFY_SOCKET"] = address.replace("\0", "@")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(address)
            listener.settimeout(0)
            command = (sys.executable, "-m", "tidegate.daemon")
            child = await spawn(command, log=tmp_path / "daemon.log", cwd=tmp_path, env=env, on_orphaned=signal.SIGKILL)
            try:
                yield Unit(child, listener)
            finally:
                await child.end(signal.SIGTERM, 20)

    return started


async def test_a_daemon_is_ready_when_it_knows_the_schema(notified: Notified, dsn: str) -> None:
    async with notified(dsn) as unit:
        await unit.until_told("READY", "1")


async def test_a_daemon_that_lacks_a_migration_was_never_ready(notified: Notified, empty_dsn: str) -> None:
    async with notified(empty_dsn) as unit:
        with anyio.fail_after(WITHIN_S):
            while unit.daemon.alive:
                await anyio.sleep(0.05)
        unit.listen()

    assert "READY" not in unit.told


async def test_a_daemon_that_waits_for_postgres_extends_its_start(notified: Notified) -> None:
    (unused,) = port.choose(1)
    async with notified(f"postgresql://postgres@127.0.0.1:{unused}/none") as unit:
        await unit.until_told("EXTEND_TIMEOUT_USEC", "60000000")
        await unit.until_told("STATUS", "waiting for Postgres")

    assert "READY" not in unit.told


async def test_tasks_survive_a_restart_of_the_documented_unit(settings: MakeSettings, tidegate: Tidegate, tmp_path: Path) -> None:
    (documented,) = (block for block in blocks("ini") if "tidegate daemon" in block.text)
    mine = settings(topic_partitions=1)
    await topics.create(mine.kafka_servers, mine.topic_prefix, 1, 1)
    (Path(mine.dags_folder) / "waits.py").write_text(DAG.format(file=tmp_path / "go"))
    beside = RunningDaemon(mine, partial(tidegate, **as_text(mine)))

    first = await spawn_daemon(mine, tmp_path)
    try:
        await beside.until(lambda: beside.knows("waits"))
        assert (await beside.call("runs", "trigger", "waits")).code == 0
        await beside.until(lambda: has_begun(beside))
    finally:
        await stop_as_systemd_does(first, unit_of(documented)["Service"]["KillMode"])
    second = await spawn_daemon(mine, tmp_path)
    try:
        (tmp_path / "go").touch()
        await beside.until(lambda: beside.has_ended("waits"))
        (task,) = await beside.answer("tasks", "list", "waits", "latest")
    finally:
        await second.end(signal.SIGTERM, 20)

    assert (task["state"], task["try_number"]) == ("success", 1)


async def stop_as_systemd_does(daemon: Child, kill_mode: str) -> None:
    """`process`: only the daemon. Any other mode then kills what is left in its control group, as a session of a task is."""
    await signalled(daemon)
    if kill_mode != "process":
        for process in psutil.process_iter():
            if STAMP in environ_of(process):
                process.kill()


async def signalled(daemon: Child) -> None:
    daemon.send_signal(signal.SIGTERM)
    with anyio.fail_after(WITHIN_S):
        await daemon.process.wait()


def environ_of(process: psutil.Process) -> Mapping[str, str]:
    try:
        return process.environ()
    except (psutil.Error, OSError):
        return {}


async def has_begun(beside: RunningDaemon) -> bool:
    tasks = await beside.answer("tasks", "list", "waits", "latest")
    return [task["state"] for task in tasks] == ["running"]
