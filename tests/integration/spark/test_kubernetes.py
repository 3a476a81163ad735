"""What a killed driver leaves on Kubernetes, here a scripted API server, is deleted with the token of its task."""

import json
import os
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from tests.unit.spark.test_spool import DEAD, prepared
from tidegate.daemon.spark.runner.reap import reap
from tidegate.daemon.spark.runner.stamped_application import stamp_of
from tidegate.daemon.spark.spool import Spool
from tidegate.daemon.standalone.port import LOOPBACK
from tidegate.schemas.dag import SubmitTask

TOKEN = "a-token-of-the-task"  # noqa: S105 - of this test
KINDS = {"pods": "Pod", "configmaps": "ConfigMap", "persistentvolumeclaims": "PersistentVolumeClaim"}


class Api:
    """`objects`: the stamp of each, by kind and name."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], str] = {}
        self.port = 0

    def answer(self, method: str, target: str) -> tuple[int, object]:
        url = urlsplit(target)
        found = re.fullmatch(r"/api/v1/namespaces/jobs/(\w+)(?:/([\w-]+))?", url.path)
        if found is None:
            return 404, {}
        kind, name = found.groups()
        (selector,) = parse_qs(url.query).get("labelSelector", [""])
        chosen = [key for key, stamp in self.objects.items() if key[0] == kind and self._is_named(key[1], stamp, name, selector)]
        if method == "DELETE":
            for key in chosen:
                del self.objects[key]
        return 200, {
            "kind": f"{KINDS[kind]}List",
            "apiVersion": "v1",
            "items": [
                {"kind": KINDS[kind], "apiVersion": "v1", "metadata": {"name": key[1], "namespace": "jobs"}} for key in chosen
            ],
        }

    @staticmethod
    def _is_named(name: str, stamp: str, wanted: str | None, selector: str) -> bool:
        return name == wanted if wanted else selector == f"spark-app-selector={stamp}"


@pytest.fixture
def api() -> Iterator[Api]:
    scripted = Api()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            is_known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
            code, body = scripted.answer(self.command, self.path) if is_known else (403, {})
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def do_GET(self) -> None:
            self._answer()

        def do_DELETE(self) -> None:
            self._answer()

        def log_message(self, *_: object) -> None:
            """Not to the output of the tests."""

    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        scripted.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield scripted
        finally:
            server.shutdown()


SILENT_S = 800.0
"""The end has an eighth of this, which a JVM of a machine with other work needs."""


def killed(root: Path, port: int, token: str) -> Spool:
    """An attempt whose runner and driver were killed."""
    spool = prepared(root)
    job = spool.job()
    assert job is not None
    conf = {"spark.kubernetes.namespace": "jobs", "spark.kubernetes.authenticate.oauthToken": token}
    spec = msgspec.structs.replace(job.spec, task=SubmitTask(task_id="t", application="a.py", conf={**conf}))
    spool.prepare(msgspec.structs.replace(job, spec=spec, spark_master=f"k8s://http://{LOOPBACK}:{port}", silent_s=SILENT_S))
    spool.claim(DEAD)
    return spool


def test_executors_and_config_maps_of_a_driver_that_was_killed_are_deleted(api: Api, tmp_path: Path) -> None:
    spool = killed(tmp_path, api.port, TOKEN)
    stamp = stamp_of(spool.submission_id)
    api.objects |= {("pods", "exec-1"): stamp, ("pods", "exec-2"): stamp, ("configmaps", "exec-map"): stamp}
    api.objects |= {("persistentvolumeclaims", "exec-pvc"): stamp, ("pods", "other"): "spark-1", ("configmaps", "own"): ""}

    reap(spool, None)

    outcome = spool.outcome()
    assert outcome is not None
    assert set(api.objects) == {("pods", "other"), ("configmaps", "own")}, outcome.reason
    assert "may go on" not in outcome.reason


@pytest.mark.long
@pytest.mark.skipif(not os.environ.get("TEST_LONG"), reason="waits for a cluster that refuses: make test-long")
def test_what_cannot_be_deleted_is_in_the_reason(api: Api, tmp_path: Path) -> None:
    spool = killed(tmp_path, api.port, "another")

    reap(spool, None)

    outcome = spool.outcome()
    assert outcome is not None
    address = f"http://{LOOPBACK}:{api.port}"
    assert f"its application on Kubernetes at {address} may go on ({stamp_of(spool.submission_id)}): " in outcome.reason
    assert "403" in outcome.reason or "Forbidden" in outcome.reason
