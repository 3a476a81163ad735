"""The daemons and the cluster of a storm as processes: started, killed, frozen, started again."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import anyio
import msgspec

from tests import fork_server
from tests.storms.cluster import Script
from tests.storms.links import Link
from tidegate.daemon.standalone.process import Child, spawn

ROOT = Path(__file__).parents[2]
DAEMON = "tests.storms.daemon"
STOP_S = 20.0
DOOM_S = 12.0
"""Within this time a daemon reaches its point, unless there is nothing more to do."""


def build_env(root: Path) -> Mapping[str, str]:
    """What makes a program be of that tree, and not of the one that is installed."""
    return {} if root == ROOT else {"PYTHONPATH": str(root / ".src")}


class End(msgspec.Struct, frozen=True):
    """How a process of a daemon ended. `told`: by the storm; else by itself. `point`: where it was to end itself, and did."""

    daemon: str
    code: int
    told: bool
    log: Path
    point: str = ""
    life: tuple[datetime, datetime] | None = None
    """When it was started, and when it ended."""


class Daemon:
    """A daemon that is started again after up to two seconds whenever it ends. `links` are its ways to servers.

    `root` is the tree of the project that its next process is of.
    """

    def __init__(
        self,
        name: str,
        home: Path,
        env: dict[str, str],
        arguments: Sequence[str],
        random: Random,
        links: Sequence[Link] = (),
    ) -> None:
        self.name = name
        self.root = ROOT
        self.links = links
        self.ends: list[End] = []
        self.frozen = False
        self.die_at: str | None = None
        """The point at which its next process ends itself."""
        self.missed: list[str] = []
        """The points that processes did not reach, because they were ended otherwise before."""
        self._point = ""
        self._home = home
        self.env = env
        self._arguments = arguments
        self._random = random
        self._child: Child | None = None
        self._told: set[int] = set()
        self._starts = 0
        self._doomed_until = 0.0
        self._began_at = datetime.now(UTC)

    @property
    def up(self) -> bool:
        return self._child is not None and self._child.alive

    @property
    def doomed(self) -> bool:
        """True while it is to be expected that its process ends itself."""
        return anyio.current_time() < self._doomed_until

    async def run(self) -> None:
        """Until cancelled; then it is stopped in good order."""
        try:
            while True:
                child = self._child = await self._start()
                code = await child.process.wait()
                self._doomed_until = 0.0
                point = self._point if code == -signal.SIGKILL else ""
                self.ends.append(End(self.name, code, child.pid in self._told, child.log, point, self._life()))
                await anyio.sleep(self._random.uniform(0, 2))
        finally:
            with anyio.CancelScope(shield=True):
                await self._stop()

    def kill(self) -> None:
        self._signal(signal.SIGKILL, ends=True)

    def terminate(self) -> None:
        self._signal(signal.SIGTERM, ends=True)

    async def freeze(self, seconds: float) -> None:
        self.frozen = True
        self._signal(signal.SIGSTOP)
        try:
            await anyio.sleep(seconds)
        finally:
            self._signal(signal.SIGCONT)
            self.frozen = False

    def _signal(self, number: signal.Signals, *, ends: bool = False) -> None:
        if self._child is not None and self._child.alive:
            if ends:
                self._told.add(self._child.pid)
                self._miss_point()
            self._child.send_signal(number)

    def _miss_point(self) -> None:
        if self._point:
            self.missed.append(self._point)
            self._point = ""

    async def _start(self) -> Child:
        self._starts += 1
        self._began_at = datetime.now(UTC)
        die_at, self.die_at = self.die_at, None
        last_words = ["--die-at", die_at] if die_at else []
        log = self._home / f"daemon-{self.name}-{self._starts:03}.log"
        child = await _start_daemon(self.root, log, self.env, *self._arguments, *last_words)
        self._doomed_until = anyio.current_time() + DOOM_S if die_at else 0.0
        self._point = die_at or ""
        if die_at:
            self._told.add(child.pid)
        return child

    async def _stop(self) -> None:
        if self._child is not None and self._child.alive:
            self._told.add(self._child.pid)
            self._miss_point()
            await self._child.end(signal.SIGTERM, STOP_S)
            code = self._child.process.returncode or 0
            self.ends.append(End(self.name, code, told=True, log=self._child.log, life=self._life()))

    def _life(self) -> tuple[datetime, datetime]:
        return self._began_at, datetime.now(UTC)


async def _start_daemon(root: Path, log: Path, env: Mapping[str, str], *arguments: str) -> Child:
    """The fork server has the modules of this tree alone."""
    if root == ROOT:
        return await fork_server.spawn(DAEMON, arguments, log=log, cwd=ROOT, env={**os.environ, **env})
    return await spawn(
        (sys.executable, "-m", DAEMON, *arguments),
        log=log,
        cwd=root,
        env={**os.environ, **env, **build_env(root)},
        on_orphaned=signal.SIGKILL,
    )


async def start_cluster(home: Path, script: Script) -> tuple[Child, str]:
    """The scripted cluster and its address."""
    child = await spawn(
        (sys.executable, "-m", "tests.storms.cluster", msgspec.json.encode(script).decode()),
        log=home / "cluster.log",
        cwd=ROOT,
        env=os.environ,
        on_orphaned=signal.SIGKILL,
    )
    ready = Path(script.ready)
    try:
        with anyio.fail_after(60):
            while not ready.exists():
                await anyio.sleep(0.05)
    except BaseException:
        await child.end(signal.SIGKILL, 0)
        raise
    return child, ready.read_text()
