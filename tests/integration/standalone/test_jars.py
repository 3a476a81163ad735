"""Fetching the jars of Kafka, from a Maven repository on loopback."""

import hashlib
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tidegate.daemon.standalone import jars
from tidegate.daemon.standalone.jars import Jar
from tidegate.daemon.standalone.port import LOOPBACK, choose
from tidegate.daemon.standalone.process import ServerError

CONTENT = b"the bytes of a jar " * 5000
JAR = Jar(hashlib.sha256(CONTENT).hexdigest(), "org.example", "thing", "1.0")
PATH = "/org/example/thing/1.0/thing-1.0.jar"


class Repository(ThreadingHTTPServer):
    """Serves the one jar; the first `breaks` answers end halfway."""

    def __init__(self) -> None:
        super().__init__((LOOPBACK, 0), Answer)
        self.asked: list[str] = []
        self.breaks = 0


class Answer(BaseHTTPRequestHandler):
    server: Repository

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path != PATH:
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: len(CONTENT) // 2 if self._breaks() else None])
        return None

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library calls it so
        """Nothing on the terminal of the tests."""

    def _breaks(self) -> bool:
        self.server.breaks -= 1
        return self.server.breaks >= 0


def use_repository(home: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".config").mkdir()
    (home / ".config" / "jgo.conf").write_text(f"[repositories]\ncentral = http://{LOOPBACK}:{port}\n")
    monkeypatch.setenv("HOME", str(home))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    with Repository() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        use_repository(tmp_path, server.server_port, monkeypatch)
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_repository(tmp_path, choose(1)[0], monkeypatch)


def test_a_jar_is_fetched_into_the_cache(repository: Repository, tmp_path: Path) -> None:
    paths = jars.resolve(tmp_path / "cache", [JAR])

    assert [path.read_bytes() for path in paths] == [CONTENT]


def test_a_jar_is_asked_for_once(repository: Repository, tmp_path: Path) -> None:
    for _ in range(2):
        jars.resolve(tmp_path / "cache", [JAR])

    assert repository.asked.count(PATH) == 1


def test_a_full_cache_needs_no_network(no_repository: None, cache: Path) -> None:
    if jars.missing(cache, jars.locked()):
        pytest.fail("the cache must be full here: make fills it, and so does the first Kafka")

    assert len(jars.resolve(cache, jars.locked())) == len(jars.locked())


def test_a_download_that_broke_off_is_tried_again(repository: Repository, tmp_path: Path) -> None:
    repository.breaks = 2

    paths = jars.resolve(tmp_path / "cache", [JAR])

    assert [path.read_bytes() for path in paths] == [CONTENT]


def test_a_jar_that_is_not_the_locked_one_is_refused(repository: Repository, tmp_path: Path) -> None:
    other = Jar("0" * 64, JAR.group, JAR.artifact, JAR.version)

    with pytest.raises(
        ServerError, match=f"^thing-1.0.jar was not installed: .* SHA-256 {JAR.sha256}, but .* says {'0' * 64}; check"
    ):
        jars.resolve(tmp_path / "cache", [other])


def test_a_refused_jar_leaves_nothing_in_the_cache(repository: Repository, tmp_path: Path) -> None:
    with pytest.raises(ServerError):
        jars.resolve(tmp_path / "cache", [Jar("0" * 64, JAR.group, JAR.artifact, JAR.version)])

    assert list((tmp_path / "cache" / "jars").iterdir()) == []


def test_a_jar_that_changed_in_the_cache_is_refused(repository: Repository, tmp_path: Path) -> None:
    [path] = jars.resolve(tmp_path / "cache", [JAR])
    path.write_bytes(CONTENT[1:])

    with pytest.raises(
        ServerError, match=f"^{re.escape(str(path))} is not the file that was downloaded .*: delete it and start again$"
    ):
        jars.resolve(tmp_path / "cache", [JAR])


def test_a_repository_that_is_away_is_told(no_repository: None, tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"^thing-1.0.jar could not be downloaded, check the network and start again: "):
        jars.resolve(tmp_path / "cache", [JAR])


def test_every_jar_of_the_lock_has_a_name_of_its_own() -> None:
    names = [jar.filename for jar in jars.locked()]

    assert len(set(names)) == len(names) > 40
