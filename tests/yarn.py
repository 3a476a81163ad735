"""The ResourceManager of a real YARN, without any node: applications wait in its queue. Nothing is kept on disk."""

import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode

import httpx

from tidegate.daemon.standalone import jars, java
from tidegate.daemon.standalone.port import LOOPBACK
from tidegate.daemon.standalone.process import Child, inherited, spawn
from tidegate.daemon.standalone.server import Server

LOCK = Path(__file__).parent / "spark" / "yarn.lock"
MAIN = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
ADDRESSES = ("webapp.address", "address", "scheduler.address", "resource-tracker.address", "admin.address")

QUEUES = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
}


class Yarn(Server):
    """`conf` is a folder for `HADOOP_CONF_DIR`."""

    name: ClassVar[str] = "the ResourceManager"
    ports_needed: ClassVar[int] = len(ADDRESSES)
    usual_s: ClassVar[float] = 180.0
    unanswered = (OSError, TimeoutError, httpx.HTTPError, LookupError, json.JSONDecodeError)

    def __init__(self, home: Path, cache: Path) -> None:
        super().__init__(home)
        self._cache = cache
        self.conf = self.home / "conf"

    async def states(self, tag: str) -> list[str]:
        """The states of the applications with the tag."""
        found = await self._get(f"/apps?{urlencode({'applicationTags': tag})}")
        return [each["state"] for each in (found["apps"] or {}).get("app", ())]

    async def _get(self, path: str) -> Any:
        async with httpx.AsyncClient(trust_env=False) as client:
            return (await client.get(f"http://{LOOPBACK}:{self.port}/ws/v1/cluster{path}")).json()

    async def _prepare(self) -> None:
        self.conf.mkdir(parents=True, exist_ok=True)
        await java.find(os.environ)

    async def _spawn(self, chosen: tuple[int, ...]) -> Child:
        self.port = chosen[0]
        places = zip(ADDRESSES, chosen, strict=True)
        own = {f"yarn.resourcemanager.{name}": f"{LOOPBACK}:{port}" for name, port in places}
        write(self.conf / "yarn-site.xml", {**own, "yarn.resourcemanager.hostname": LOOPBACK})
        write(self.conf / "core-site.xml", {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(self.home / "tmp")})
        write(self.conf / "capacity-scheduler.xml", QUEUES)
        classes: Sequence[Path] = (self.conf, *jars.resolve(self._cache, jars.parse(LOCK.read_text())))
        command = (
            *(str(await java.find(os.environ)), "-Xmx128m", "-XX:+UseSerialGC", java.NO_TRACES),
            *("--add-opens=java.base/java.lang=ALL-UNNAMED", "-Djava.net.preferIPv4Stack=true"),
            *("-cp", os.pathsep.join(map(str, classes)), MAIN),
        )
        return await spawn(command, log=self.log, cwd=self.home, env=inherited(), on_orphaned=signal.SIGKILL)

    async def _answers(self, child: Child, port: int) -> bool:
        """A ResourceManager that starts lists no applications."""
        return child.alive and port == self.port and (await self._get("/info"))["clusterInfo"]["haState"] == "ACTIVE"


def write(path: Path, properties: Mapping[str, str]) -> None:
    """A file of properties in the form of Hadoop."""
    text = "".join(f"<property><name>{name}</name><value>{value}</value></property>\n" for name, value in properties.items())
    path.write_text(f"<configuration>\n{text}</configuration>\n")
