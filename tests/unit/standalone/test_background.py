"""A standalone in the background: when it is ready, and what `down` ends."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from tidegate.daemon.spark.process import STAMP, Identity, alive, identify
from tidegate.daemon.standalone import background, record
from tidegate.daemon.standalone.process import ServerError
from tidegate.daemon.standalone.record import Record, Recorder, ServerRecord, now
from tidegate.daemon.standalone.server import exclusive
from tidegate.schemas.error import RequestError

SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")
WRITE_A_RECORD_OF_THIS_PID = """
import os, sys, time
from pathlib import Path
home, record = Path(sys.argv[1]), sys.argv[2].replace('"pid":1,', f'"pid":{os.getpid()},')
(home / "draft").write_text(record)
(home / "draft").rename(home / "standalone.json")
while not (home / "go").exists(): time.sleep(0.01)
sys.exit(3)
"""
EARLIER = '{"process":{"pid":1,"start_time":1,"boot_id":"b"},"since":"2026-01-01T00:00:00Z","settings":{"spool_dir":"s"}}'
Start = Callable[..., Identity]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a process that sleeps."""
    with ExitStack() as started:

        def begin(**env: str) -> Identity:
            process = started.enter_context(subprocess.Popen(SLEEP, env=env))
            started.callback(process.kill)
            found = identify(process.pid)
            assert found is not None
            return found

        yield begin


def then(monkeypatch: pytest.MonkeyPatch, happens: Callable[[Record | None], None]) -> None:
    """Something happens each time that a record was read."""
    read = record.read

    def read_then(home: Path) -> Record | None:
        found = read(home)
        happens(found)
        return found

    monkeypatch.setattr(record, "read", read_then)


def killed(home: Path, server: Identity) -> None:
    """The record of a standalone that was killed, and of its server, which goes on."""
    recorder = Recorder(home)
    recorder.enter("kafka", ServerRecord(name="Kafka", log="server.log", since=now(), process=server))
    recorder.change(process=None)


def test_a_record_of_an_earlier_process_with_the_same_pid_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "COMMAND", (sys.executable, "-c", WRITE_A_RECORD_OF_THIS_PID, str(tmp_path), EARLIER))
    then(monkeypatch, lambda found: (tmp_path / "go").touch() if found else None)

    with pytest.raises(RequestError, match="ended with exit code 3"):
        background.start(tmp_path, (), {}, print)


def test_a_start_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path)
    recorder.change()
    then(monkeypatch, lambda _: recorder.change(settings={"spool_dir": "s"}))

    assert background.runs_already(tmp_path)
    assert background.running(tmp_path).settings


def test_a_start_that_ends_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path)
    recorder.change()
    then(monkeypatch, lambda _: record.remove(tmp_path))

    with pytest.raises(RequestError, match=f"^the standalone that was starting on {tmp_path} has ended; "):
        background.runs_already(tmp_path)
    assert not background.runs_already(tmp_path)


def test_down_leaves_a_folder_alone_on_which_a_standalone_starts(tmp_path: Path, start: Start) -> None:
    server = start()
    killed(tmp_path, server)

    with exclusive(tmp_path, ""), pytest.raises(ServerError, match=rf"^{re.escape(str(tmp_path))} is in use .*a few seconds$"):
        background.stop(tmp_path, print)

    assert alive(server)
    assert record.read(tmp_path) is not None


def test_down_ends_the_tasks_of_a_start_that_failed(tmp_path: Path, start: Start) -> None:
    submission_id = uuid4()
    (tmp_path / "spool" / str(submission_id)).mkdir(parents=True)
    runner = start(**{STAMP: str(submission_id)})

    assert background.stop(tmp_path, print)
    assert not alive(runner)
    assert not background.stop(tmp_path, print)
    assert not background.stop(tmp_path / "missing", print)
