"""What a standalone that was killed has left is ended by the next one."""

import sys
from pathlib import Path

import anyio
import pytest

from tidegate.daemon.spark.process import Identity, alive, identify
from tidegate.daemon.standalone import leftover, record
from tidegate.daemon.standalone.leftover import end_servers
from tidegate.daemon.standalone.record import Record, Recorder, ServerRecord, now
from tidegate.schemas.error import RequestError

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def of(home: Path, process: Identity | None) -> Record:
    """What is found after a standalone with one server was killed."""
    recorder = Recorder(home)
    recorder.enter("kafka", ServerRecord(name="Kafka", log="server.log", since=now()))
    recorder.change_server("kafka", process=process)
    found = record.read(home)
    assert found is not None
    return found


async def test_a_server_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftover, "GRACE_S", 0.1)
    said: list[str] = []
    async with await anyio.open_process(SLEEP) as server:
        process = identify(server.pid)
        assert process is not None

        await end_servers(of(tmp_path, process), said.append)

        assert not alive(process)
    assert said == [f"Kafka (process {process.pid}) is left of a standalone that was killed: waiting for its end"]


async def test_a_process_that_has_the_pid_of_a_server_is_not_touched(tmp_path: Path) -> None:
    said: list[str] = []
    async with await anyio.open_process(SLEEP) as stranger:
        process = identify(stranger.pid)
        assert process is not None
        earlier = Identity(process.pid, process.start_time - 1, process.boot_id)

        await end_servers(of(tmp_path, earlier), said.append)

        assert alive(process)
        stranger.kill()
    assert said == []


def test_a_record_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "standalone.json").write_text("{")

    with pytest.raises(RequestError, match=r"standalone\.json cannot be read: .*; if no standalone runs, delete it$"):
        record.read(tmp_path)
