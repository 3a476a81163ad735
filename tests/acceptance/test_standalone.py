"""`tidegate standalone` as people use it: servers die and come back, ports stay, and nothing is left of it."""

import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from tests.acceptance.command import TIDEGATE, Command, environment
from tidegate.daemon.spark.process import Identity, alive, identify
from tidegate.daemon.standalone import record
from tidegate.daemon.standalone.port import LOOPBACK
from tidegate.daemon.standalone.process import Child, spawn
from tidegate.daemon.standalone.record import Record, ServerState

WITHIN_S = 120.0
SERVERS = {"postgres": "Postgres", "kafka": "Kafka", "spark": "Spark Connect", "daemon": "The daemon", "web": "The web page"}
DAG = """
from tidegate import Dag
with Dag("patient", schedule=None) as dag:
    dag.command("wait", ["sh", "-c", "echo $$ > {folder}/pid; until [ -e {folder}/go ]; do sleep 0.1; done"])
"""


class Standalone:
    """A standalone on a folder, and the record that it writes there."""

    def __init__(self, home: Path, child: Child) -> None:
        self.home = home
        self.child = child

    @property
    def record(self) -> Record:
        found = record.read(self.home)
        assert found is not None, self.child.tail()
        return found

    @property
    def is_recorded(self) -> bool:
        """Whether the record is of this process."""
        found = record.read(self.home)
        return found is not None and found.process is not None and found.process.pid == self.child.pid

    @property
    def ports(self) -> dict[str, int]:
        return {key: server.port for key, server in self.record.servers.items()}

    @property
    def processes(self) -> dict[str, Identity]:
        return {key: server.process for key, server in self.record.servers.items() if server.process}

    def is_ready(self, restarts: int = 0) -> bool:
        """Whether each server was started again so often, and is ready."""
        assert self.child.alive, self.child.tail()
        servers = self.record.servers.values() if self.is_recorded and self.record.settings else ()
        return bool(servers) and all(it.state is ServerState.READY and it.restarts >= restarts for it in servers)

    def has_ports(self, *keys: str) -> bool:
        return self.is_recorded and all(self.ports.get(key) for key in keys)

    def said(self, begin: str) -> bool:
        return any(line.startswith(begin) for line in self.child.log.read_text().splitlines())


@asynccontextmanager
async def standalone(home: Path, cache: Path) -> AsyncIterator[Standalone]:
    command = (TIDEGATE, "standalone", "--no-example", "--data", str(home))
    env = environment() | {"TIDEGATE_CACHE": str(cache)}
    child = await spawn(command, log=home.with_suffix(".log"), cwd=home.parent, env=env, on_orphaned=signal.SIGKILL)
    try:
        yield Standalone(home, child)
    finally:
        await child.end(signal.SIGTERM, WITHIN_S)


async def until(holds: Callable[[], bool], within_s: float = WITHIN_S) -> None:
    with anyio.fail_after(within_s):
        while not holds():
            await anyio.sleep(0.1)


async def begin_task(tidegate: Command, dags: Path, folder: Path) -> Identity:
    """The process of a task at work, which ends when `folder` has a file `go`."""
    dags.mkdir()
    (dags / "patient.py").write_text(DAG.format(folder=folder))
    with anyio.fail_after(WITHIN_S):
        while (await tidegate("runs", "trigger", "patient", "--run-id", "by_hand")).code != 0:
            await anyio.sleep(0.2)
    await until(lambda: (folder / "pid").exists() and (folder / "pid").read_text().endswith("\n"))
    found = identify(int((folder / "pid").read_text()))
    assert found is not None
    return found


async def test_servers_that_die_come_back_and_a_killed_standalone_leaves_nothing(cache: Path, tmp_path: Path) -> None:
    home = tmp_path / "data"
    async with standalone(home, cache) as first:
        await until(first.is_ready)
        before, ports = first.processes, first.ports
        tidegate = Command(tmp_path, **first.record.settings)
        task = await begin_task(tidegate, home / "dags", tmp_path)

        for process in before.values():
            os.kill(process.pid, signal.SIGKILL)
        await until(lambda: first.is_ready(restarts=1))

        assert first.ports == ports
        assert before.keys() == SERVERS.keys()
        assert not before.items() & first.processes.items()
        assert [name for name in SERVERS.values() if not first.said(f"{name} was ended by SIGKILL and starts again")] == []
        assert alive(task)
        (tmp_path / "go").touch()
        with anyio.fail_after(WITHIN_S):
            while (shown := await tidegate.answer("runs", "show", "patient", "by_hand"))["run"]["state"] != "success":
                await anyio.sleep(0.2)
        assert [len(task["attempts"]) for task in shown["tasks"]] == [1]

        left = first.processes.values()
        os.kill(first.child.pid, signal.SIGKILL)
        await until(lambda: not any(map(alive, left)), within_s=15)

    with socket.create_server((LOOPBACK, ports["postgres"])):
        async with standalone(home, cache) as second:
            await until(lambda: second.has_ports("postgres", "kafka", "spark"))
            again, left = second.ports, second.processes.values()
            second.child.send_signal(signal.SIGINT)
            await second.child.process.wait()

    assert second.child.process.returncode == 0
    assert second.said(f"port {ports['postgres']} of Postgres is taken by another program: it gets a new one")
    assert again == {name: again[name] if name == "postgres" else ports[name] for name in again}
    assert record.read(home) is None
    assert not any(map(alive, left))
