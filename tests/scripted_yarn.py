"""A scripted ResourceManager of YARN: its REST API over applications in memory, with faults."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tidegate.daemon.standalone.port import LOOPBACK

YARN_SITE = """\
<?xml version="1.0"?>
<configuration>
  <property><name>yarn.resourcemanager.hostname</name><value>{host}</value></property>
  <property><name>yarn.resourcemanager.webapp.address</name><value>${{yarn.resourcemanager.hostname}}:{port}</value></property>
</configuration>
"""


class ScriptedYarn:
    """`applications`: the states, by id and tag. Each entry of `answers` takes the place of an answer: a status, or text.

    A killed application is `KILLED` after `looks` more lists. One that is on standby, or starts, lists none.
    """

    def __init__(self) -> None:
        self.applications: dict[tuple[str, str], str] = {}
        self.state = "ACTIVE"
        self.answers: list[int | str] = []
        self.looks = 0
        self.requests: list[str] = []
        self._killed: set[str] = set()
        self.port = 0

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def configure(self, folder: Path) -> Path:
        """A folder for `HADOOP_CONF_DIR`."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "yarn-site.xml").write_text(YARN_SITE.format(host=LOOPBACK, port=self.port))
        return folder

    def answer(self, path: str, body: Mapping[str, Any] | None) -> tuple[int, str]:
        self.requests.append(path if body is None else f"{path} {body['state']}")
        if self.answers:
            scripted = self.answers.pop(0)
            return (scripted, "{}") if isinstance(scripted, int) else (200, scripted)
        url = urlsplit(path)
        name = url.path.removeprefix("/ws/v1/cluster/")
        if name == "info":
            return 200, json.dumps({"clusterInfo": {"haState": self.state}})
        if name == "apps":
            return 200, json.dumps({"apps": self._listed(parse_qs(url.query))})
        self._killed.add(name.split("/")[1])
        return 202, "{}"

    def _listed(self, query: Mapping[str, list[str]]) -> Mapping[str, Any] | None:
        self._end_killed()
        (tags,), (states,) = query["applicationTags"], query["states"]
        found = [
            {"id": id_, "state": state, "applicationTags": tag}
            for (id_, tag), state in self.applications.items()
            if self.state == "ACTIVE" and tag in tags.split(",") and state in states.split(",")
        ]
        return {"app": found} if found else None

    def _end_killed(self) -> None:
        if self._killed and self.looks:
            self.looks -= 1
            return
        for id_, tag in self.applications:
            if id_ in self._killed:
                self.applications[id_, tag] = "KILLED"


@contextmanager
def scripted_yarn() -> Iterator[ScriptedYarn]:
    scripted = ScriptedYarn()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_PUT(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Mapping[str, Any] | None) -> None:
            code, text = scripted.answer(self.path, body)
            self.send_response(code)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Not to the output of the tests."""

    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        scripted.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield scripted
        finally:
            server.shutdown()
