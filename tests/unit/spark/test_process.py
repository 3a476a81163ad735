"""Processes by identity and by stamp, with real processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import anyio
import pytest

from tidegate.daemon.spark.process import STAMP, Identity, alive, end_all, has_stamp, identify, send, stamped, until_gone


@pytest.fixture
def submission_id() -> UUID:
    return uuid4()


@pytest.fixture
def sleeper(submission_id: UUID) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"], env=os.environ | {STAMP: str(submission_id)}) as process:  # noqa: S607 - whichever there is
        yield process
        process.kill()


def identity(process: subprocess.Popen[bytes]) -> Identity:
    found = identify(process.pid)
    assert found is not None
    return found


def test_a_process_is_alive_until_it_is_a_zombie(sleeper: subprocess.Popen[bytes]) -> None:
    it = identity(sleeper)
    before = alive(it)

    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)

    assert before
    assert not alive(it)


@pytest.mark.parametrize("change", [{"start_time": 1}, {"boot_id": "another boot"}])
def test_another_process_with_the_same_pid_is_not_signalled(sleeper: subprocess.Popen[bytes], change: dict[str, Any]) -> None:
    it = identity(sleeper)
    other = Identity(**{"pid": it.pid, "start_time": it.start_time, "boot_id": it.boot_id, **change})

    sent = send(other, signal.SIGKILL)

    assert not sent
    assert alive(it)


def test_a_signal_to_a_process_that_is_gone_says_so(sleeper: subprocess.Popen[bytes]) -> None:
    it = identity(sleeper)
    sleeper.kill()
    sleeper.wait()

    assert not send(it, signal.SIGTERM)


def test_a_process_is_found_by_its_stamp(sleeper: subprocess.Popen[bytes], submission_id: UUID) -> None:
    assert list(stamped(submission_id)) == [identity(sleeper)]
    assert list(stamped(uuid4())) == []


STARTING = """\
import os, sys
left = int(sys.argv[1])
left and os.execv(sys.executable, [sys.executable, "-S", "-c", os.environ["PROGRAM"], str(left - 1)])
sys.stdin.read()
"""


def test_a_process_that_starts_a_program_keeps_its_stamp(submission_id: UUID) -> None:
    env = {STAMP: str(submission_id), "PROGRAM": STARTING, **{f"V{number}": "" for number in range(2000)}}
    command = [sys.executable, "-S", "-c", STARTING, "50"]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE) as process:
        found = 0
        while b"\x000\0" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
            assert has_stamp(process.pid, submission_id), f"after it was found {found} times"
            found += 1


@pytest.mark.parametrize("env", [{}, {"OTHER": "1"}])
def test_a_process_without_the_stamp_is_another(env: dict[str, str], submission_id: UUID) -> None:
    with subprocess.Popen(["/bin/cat"], env=env, stdin=subprocess.PIPE) as process:
        assert not has_stamp(process.pid, submission_id)


def test_a_process_that_one_scan_misses_is_ended(
    sleeper: subprocess.Popen[bytes], submission_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first scan is of before its start."""
    scans = iter([[name for name in os.listdir("/proc") if name != str(sleeper.pid)]])
    scan = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: next(scans, None) or scan(path))

    end_all(submission_id, grace_s=10)

    assert sleeper.wait(5) == -signal.SIGTERM


def test_ending_asks_first(sleeper: subprocess.Popen[bytes], submission_id: UUID) -> None:
    ended = end_all(submission_id, grace_s=10)

    assert ended == 1
    assert sleeper.wait() == -signal.SIGTERM


def test_ending_kills_what_does_not_listen(submission_id: UUID) -> None:
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"
    env = os.environ | {STAMP: str(submission_id)}
    with subprocess.Popen([sys.executable, "-c", deaf], env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()

        end_all(submission_id, grace_s=0.1)

        assert process.wait() == -signal.SIGKILL


async def test_waiting_ends_with_the_process(sleeper: subprocess.Popen[bytes]) -> None:
    it = identity(sleeper)

    with anyio.move_on_after(0.05) as too_early:
        await until_gone(it)
    sleeper.kill()
    with anyio.fail_after(10):
        await until_gone(it)
        await until_gone(it)

    assert too_early.cancelled_caught
