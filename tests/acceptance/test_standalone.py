"""`tidegate standalone` as people use it: servers die and come back, ports stay, and nothing is left of it."""

import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import msgspec
import pytest

from tests.acceptance.command import TIDEGATE, Command, Ended, environment, run
from tidegate.daemon.cli.pages.standalone import Status
from tidegate.daemon.settings import PREFIX
from tidegate.daemon.spark.process import Identity, alive, identify
from tidegate.daemon.standalone import record
from tidegate.daemon.standalone.port import LOOPBACK
from tidegate.daemon.standalone.process import Child, spawn
from tidegate.daemon.standalone.record import Record, ServerState

WITHIN_S = 120.0
SERVERS = {"postgres": "Postgres", "kafka": "Kafka", "spark": "Spark Connect", "daemon": "The daemon", "web": "The web page"}
DAG = """
from tidegate import Dag, Secret
with Dag("patient", schedule=None) as dag:
    script = "echo $$ > {folder}/pid; until [ -e {folder}/go ]; do sleep 0.1; done; [ $WORD = open ]"
    dag.command("wait", ["sh", "-c", script], env={{"WORD": Secret("word")}})
"""
SETTINGS = {
    "TIDEGATE_DAGS_FOLDER": "my/dags",
    "TIDEGATE_SECRETS_DIR": "my/secrets",
    "TIDEGATE_SPARK_REMOTE": "sc://elsewhere:15002",
    "TIDEGATE_HOST": "elsewhere",
}


class Standalone:
    """The commands of a standalone on a folder, and the record that it writes there."""

    def __init__(self, home: Path, cache: Path) -> None:
        self.home = home
        self._env = environment() | SETTINGS | {"TIDEGATE_CACHE": str(cache)}

    async def __call__(self, *args: str) -> Ended:
        return await run(TIDEGATE, "standalone", "--data", str(self.home), *args, env=self._env, cwd=self.home.parent)

    async def in_foreground(self, **settings: str) -> Child:
        command = (TIDEGATE, "standalone", "--no-example", "--data", str(self.home))
        log = self.home.with_suffix(".log")
        return await spawn(command, log=log, cwd=self.home.parent, env=self._env | settings, on_orphaned=signal.SIGKILL)

    async def exported(self) -> dict[str, str]:
        """The settings that a shell gets by `eval`."""
        script = 'eval "$("$@")"; exec env'
        command = (TIDEGATE, "standalone", "--data", str(self.home), "env")
        lines = (await run("sh", "-c", script, "sh", *command, env=self._env, cwd=self.home.parent)).out.splitlines()
        return dict(line.split("=", 1) for line in lines)

    async def status(self) -> Status:
        return msgspec.json.decode((await self("status", "--json")).out, type=Status)

    def record(self, pid: int | None = None) -> Record | None:
        """What the process has written, or any process."""
        found = record.read(self.home)
        return found if found and found.process and pid in (None, found.process.pid) else None

    def processes(self) -> dict[str, Identity]:
        servers = found.servers if (found := self.record()) else {}
        return {name: server.process for name, server in servers.items() if server.process}

    def ports(self, pid: int | None = None) -> dict[str, int]:
        servers = found.servers if (found := self.record(pid)) else {}
        return {name: server.port for name, server in servers.items()}

    def has_restarted(self) -> bool:
        """Whether each server was started again, and is ready."""
        servers = found.servers.values() if (found := self.record()) else ()
        return all(server.state is ServerState.READY and server.restarts for server in servers)


@pytest.fixture
async def standalone(cache: Path, tmp_path: Path) -> AsyncIterator[Standalone]:
    found = Standalone(tmp_path / "data", cache)
    yield found
    await found("down")


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(WITHIN_S):
        while not holds():
            await anyio.sleep(0.1)


async def begin_task(tidegate: Command, dags: Path, folder: Path) -> Identity:
    """The process of a task at work, which ends when `folder` has a file `go`. Beside its DAG file is a broken one."""
    (dags / "broken.py").write_text("from tidegate import Dag\nwith Dag(\n")
    (dags / "patient.py").write_text(DAG.format(folder=folder))
    with anyio.fail_after(WITHIN_S):
        while (await tidegate("runs", "trigger", "patient", "--run-id", "by_hand")).code != 0:
            await anyio.sleep(0.2)
    await until(lambda: (folder / "pid").exists() and (folder / "pid").read_text().endswith("\n"))
    found = identify(int((folder / "pid").read_text()))
    assert found is not None
    return found


async def test_a_standalone_in_the_background_starts_servers_again_and_leaves_nothing(
    standalone: Standalone, tmp_path: Path
) -> None:
    (tmp_path / "my/secrets").mkdir(parents=True)
    (tmp_path / "my/secrets/word").write_text("open")
    up = await standalone("up", "-d")
    assert up.code == 0, up
    assert "not used, because standalone has its own: TIDEGATE_SPARK_REMOTE, TIDEGATE_HOST\n" in up.out
    assert "Kafka is ready after" in up.out
    assert "/login?link=" in up.out
    assert "the example does not run, because TIDEGATE_DAGS_FOLDER is set" in up.out
    link = await standalone("link")
    assert (link.code, link.out.partition("?link=")[0]) == (0, f"{(await standalone.status()).web}/login")
    assert link.out.strip() not in up.out
    assert up.out.endswith(f"ready; `tidegate standalone down --data {standalone.home}` stops all servers\n")

    settings, status = await standalone.exported(), await standalone.status()
    assert settings["TIDEGATE_HOST"] == socket.gethostname()
    assert settings["TIDEGATE_SECRETS_DIR"] == str(tmp_path / "my/secrets")
    assert status.ready
    assert {server.server for server in status.servers} == SERVERS.keys()
    assert (await standalone("up", "-d")).out == f"standalone runs already on {standalone.home}\n"
    tidegate = Command(tmp_path, **{name.removeprefix(PREFIX): it for name, it in settings.items() if name.startswith(PREFIX)})
    before, ports = standalone.processes(), standalone.ports()
    task = await begin_task(tidegate, tmp_path / "my/dags", tmp_path)

    for process in before.values():
        os.kill(process.pid, signal.SIGKILL)
    await until(standalone.has_restarted)

    assert standalone.ports() == ports
    assert not before.items() & standalone.processes().items()
    said = (await standalone("logs", "standalone", "-n", "100")).out
    again = "standalone | {} was ended by SIGKILL and starts again"
    assert [name for name in SERVERS.values() if again.format(name) not in said] == []
    assert "standalone | broken.py:2 is broken: SyntaxError: " in said
    assert alive(task)
    (tmp_path / "go").touch()
    with anyio.fail_after(WITHIN_S):
        while (shown := await tidegate.answer("runs", "show", "patient", "by_hand"))["run"]["state"] != "success":
            await anyio.sleep(0.2)
    assert [len(task["attempts"]) for task in shown["tasks"]] == [1]

    assert status.pid is not None
    os.kill(status.pid, signal.SIGKILL)
    await until(lambda: not any(map(alive, standalone.processes().values())))
    assert {server.state for server in (await standalone.status()).servers} == {"ended"}

    with socket.create_server((LOOPBACK, ports["postgres"])):
        child = await standalone.in_foreground(**settings)
        await until(lambda: all(standalone.ports(child.pid).get(name) for name in ("postgres", "kafka", "spark")))
        kept, processes = standalone.ports(), standalone.processes().values()
        down = await standalone("down")
        await child.process.wait()

    assert down.out == f"stopped; the data stay in {standalone.home}\n"
    assert (child.process.returncode, standalone.record()) == (0, None)
    assert not any(map(alive, processes))
    assert (
        f"Postgres gets a new port for good, because another program has taken its port {ports['postgres']};"
        in child.log.read_text()
    )
    assert kept == {name: kept[name] if name == "postgres" else ports[name] for name in kept}
