"""The reaper of a runner that was killed: it records the end of the attempt only after the end of the runner."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.spark.test_spool import DEAD, prepared
from tidegate.daemon.spark.contact import elapsed
from tidegate.daemon.spark.process import Identity, alive, identify, send
from tidegate.daemon.spark.runner import reap as reap_module
from tidegate.daemon.spark.runner.reap import reap
from tidegate.daemon.spark.session_of_task import Session

HOUR_S = 3600.0


def lives_for(looks: int) -> Callable[[Identity], bool]:
    """A process that lives for this number of looks."""
    left = iter(range(looks))
    return lambda _: next(left, None) is not None


@pytest.mark.parametrize(
    ("looks", "outcome"),
    [
        (0, "failed"),
        pytest.param(3, "failed", id="the kernel frees the memory of one that was just killed"),
        pytest.param(10**9, None, id="it lives"),
    ],
)
def test_a_runner_is_reaped_after_its_end(
    looks: int, outcome: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reap_module, "KILLED_S", 0.1)
    monkeypatch.setattr(reap_module, "alive", lives_for(looks))
    spool = prepared(tmp_path)
    spool.claim(DEAD)

    reap(spool, None)

    found = spool.outcome()
    assert (found and found.outcome) == outcome


@pytest.mark.parametrize(("pid", "is_ended"), [("recorded", True), ("another", False), (None, False)])
def test_the_session_of_the_recorded_runner_alone_is_ended(pid: str | None, is_ended: bool, tmp_path: Path) -> None:
    """A task can write a claim that names a foreign process."""
    spool = prepared(tmp_path)
    with subprocess.Popen(
        ["/bin/sh", "-c", "sleep 600 > /dev/null & echo $!; read line"],
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        program, leader = identify(int(process.stdout.readline())), identify(process.pid)
        assert program is not None
        assert leader is not None
        spool.claim(leader)
        spool.beat()
        process.communicate(b"end\n")

    reap(spool, {"recorded": leader.pid, "another": 1, None: None}[pid])

    assert alive(program) != is_ended
    send(program, signal.SIGKILL)


def test_a_heartbeat_that_was_read_says_when_it_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On many file systems reading a file sets its time of access, which tells the silence of the runner."""
    told = list[float]()

    def of_ended(_: Identity, until_s: float) -> Session:
        told.append(until_s)
        return Session(DEAD.pid, ())

    monkeypatch.setattr(reap_module, "of_ended", of_ended)
    spool = prepared(tmp_path)
    spool.claim(DEAD)
    spool.beat()
    an_hour_ago = time.time() - HOUR_S
    os.utime(spool.path / "heartbeat", (time.time(), an_hour_ago))

    reap(spool, DEAD.pid)

    assert told[0] < elapsed() - HOUR_S / 2
