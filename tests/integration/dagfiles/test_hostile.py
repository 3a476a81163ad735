"""Hostile DAG files, in sandboxes of root, of a user, of a user without namespaces, and where the kernel permits nothing."""

import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.dagfiles.conftest import small_limits
from tests.integration.dagfiles.hostile_files import ATTACKS, SECRET
from tests.integration.dagfiles.users import USER, USERS, WITHOUT_ANYTHING, WITHOUT_NAMESPACES
from tidegate.daemon.dagfiles.isolation import Isolation
from tidegate.schemas.dag import ParsedFile

CONTAINED = ["root", USER, WITHOUT_NAMESPACES]

NEEDS = """
import asyncio, locale, os, subprocess, tempfile, zoneinfo
from pathlib import Path
from tidegate import Dag
import shared.names

async def three():
    return 3

locale.setlocale(locale.LC_ALL, "C.UTF-8")
with tempfile.TemporaryDirectory() as folder:
    (Path(folder) / "x").write_text("x")
    os.rename(f"{folder}/x", f"{folder}/y")
    os.chmod(f"{folder}/y", 0o600)
Dag("d", tags=[
    shared.names.NAME,
    Path("tables.txt").read_text(),
    str(zoneinfo.ZoneInfo("Europe/Berlin")),
    str(asyncio.run(three())),
    subprocess.run(["echo", "echo"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip(),
    str(len(os.urandom(5)) + len(open("/dev/urandom", "rb").read(5)) + open("/dev/null", "w").write("x")),
    str("Threads" in Path("/proc/self/status").read_text()),
])
"""

PARSE = """
import sys
import anyio, msgspec, structlog
from tidegate.daemon.dagfiles.confine import refuse_inspection
from tidegate.daemon.dagfiles.isolation import reachable
from tidegate.daemon.dagfiles.parse import open_parser
from tidegate.daemon.settings import Settings

refuse_inspection()
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))

async def main():
    async with open_parser(msgspec.json.decode(sys.argv[1], type=Settings)) as parser:
        host = parser._zygotes.host
        named = reachable(host.isolation, as_nobody=host.as_nobody)
        files = [await parser.parse(path) for path in sys.argv[2:]]
        print(msgspec.json.encode([host.isolation, named, files]).decode())

anyio.run(main)
"""


class World:
    """What the files attack. It belongs to the user of the tests, and to no sandbox."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        self.spool = folder / "spool"
        self.spool.mkdir()
        self._write(folder)
        self.sockets = [opened.enter_context(socket.create_server(("127.0.0.1", 0)))]
        self.sockets += [opened.enter_context(_unix(folder / name, kind)) for name, kind in UNIX.items()]
        self.sleepers = {name: opened.enter_context(_sleeper()) for name in ("traced", "killed", "queued", "owned")}
        self.shared = ctypes.CDLL(None).shmget(os.getpid(), 4096, 0o1666)
        opened.callback(ctypes.CDLL(None).shmctl, self.shared, 0, None)
        self.folder = folder

    def _write(self, folder: Path) -> None:
        for path in (folder / "password", self.spool / "emptied", self.spool / "deleted"):
            path.write_text(f"warehouse:{SECRET}\n")
        (self.spool / "credentials.py").write_text(f"WAREHOUSE = {SECRET!r}\n")

    @property
    def names(self) -> Mapping[str, Any]:
        """What a file has to know."""
        paths = {name: str(self.folder / name) for name in ("password", "spool", *UNIX)}
        pids = {name: process.pid for name, process in self.sleepers.items()}
        spool = {name: str(self.spool / name) for name in ("emptied", "deleted")}
        port = self.sockets[0].getsockname()[1]
        return {**paths, **pids, **spool, "tcp": port, "shared": os.getpid()}

    @property
    def state(self) -> object:
        """What no file may change."""
        files = {
            str(path): (path.stat().st_mode, path.read_bytes() if path.is_file() else b"") for path in self.folder.rglob("*")
        }
        pids = [process.pid for process in self.sleepers.values()]
        processes = [(os.sched_getaffinity(pid), os.getpriority(os.PRIO_PROCESS, pid)) for pid in pids]
        return files, processes, [process.poll() for process in self.sleepers.values()]


UNIX = {"stream": socket.SOCK_STREAM, "private": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM}


def _unix(path: Path, kind: socket.SocketKind) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, kind)
    server.bind(str(path))
    path.chmod(0o600 if path.name == "private" else 0o666)
    if kind is socket.SOCK_STREAM:
        server.listen()
    server.settimeout(0)
    return server


def _sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sleep", "600"], env={"PASSWORD": SECRET})


@pytest.fixture
def world() -> Iterator[World]:
    """Not below the places that sandboxes cover."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        folder.chmod(0o755)
        world = World(folder, opened)
        for process in world.sleepers.values():
            opened.callback(process.kill)
        yield world


class Answer(msgspec.Struct, array_like=True):
    isolation: Isolation
    named: list[str]
    files: list[ParsedFile]

    @property
    def reached(self) -> list[str]:
        return [file.path.removesuffix(".py") for file in self.files if not file.dags or file.dags[0].dag_id != "refused"]


def attacked(user: str, root: Path, world: World) -> Answer:
    for attack in ATTACKS:
        (root / f"{attack.name}.py").write_text(attack.source(world.names))
    return run(user, root, [f"{attack.name}.py" for attack in ATTACKS])


def run(user: str, root: Path, names: Sequence[str]) -> Answer:
    if user == "root" and os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    settings = msgspec.json.encode(small_limits(root)).decode()
    command = [sys.executable, "-c", USERS[user], PARSE, settings, *names]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return msgspec.json.decode(ended.stdout.splitlines()[-1], type=Answer)


@pytest.mark.parametrize("user", CONTAINED)
def test_hostile_files_reach_nothing(user: str, root: Path, world: World) -> None:
    before = world.state

    answer = attacked(user, root, world)

    named = "; ".join(answer.named)
    assert [name for name in answer.reached if not by_name(name).named_by or by_name(name).named_by not in named] == []
    if not named:
        assert SECRET not in json.dumps(msgspec.to_builtins(answer.files))
        assert world.state == before
    assert sorted(os.listdir(root)) == sorted(f"{attack.name}.py" for attack in ATTACKS)


@pytest.mark.parametrize("user", CONTAINED)
def test_what_dag_files_need_is_there(user: str, root: Path) -> None:
    (root / "shared").mkdir()
    (root / "shared/names.py").write_text("NAME = 'shared'\n")
    (root / "tables.txt").write_text("tables")
    (root / "needs.py").write_text(NEEDS)

    (parsed,) = run(user, root, ["needs.py"]).files

    assert parsed.problem is None
    assert parsed.dags[0].tags == ("shared", "tables", "Europe/Berlin", "3", "echo", "11", "True")


def test_where_the_kernel_permits_nothing_all_that_files_reach_is_named(root: Path, world: World) -> None:
    """So each attack works, and it is one of the means that holds it back."""
    answer = attacked(WITHOUT_ANYTHING, root, world)

    named = "; ".join(answer.named)
    assert [attack.named_by for attack in ATTACKS if attack.named_by and attack.named_by not in named] == []
    assert [attack.name for attack in ATTACKS if attack.named_by and attack.name not in answer.reached] == []


def by_name(name: str) -> Any:
    return next(attack for attack in ATTACKS if attack.name == name)
