"""Processes by identity and by stamp, with real processes."""

import io
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import anyio
import pytest

from tidegate.daemon.spark import process as process_module
from tidegate.daemon.spark.process import (
    STAMP,
    TAIL_BYTES,
    Identity,
    alive,
    below,
    end_all,
    has_stamp,
    identify,
    send,
    signal_name,
    stamped,
    tail,
    until_gone,
    with_processes,
)


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


FIRST_THREAD_ENDS = """\
import ctypes, sys, threading
threading.Thread(target=sys.stdin.read).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_lives_and_keeps_its_stamp(submission_id: UUID) -> None:
    """So does a runner for a moment when another thread than the first one replaces its program."""
    env = os.environ | {STAMP: str(submission_id)}
    with subprocess.Popen([sys.executable, "-c", FIRST_THREAD_ENDS], env=env, stdin=subprocess.PIPE) as process:
        it = identity(process)
        while b") Z" not in Path(f"/proc/{process.pid}/stat").read_bytes():
            assert process.poll() is None

        lives, found = alive(it), list(stamped(submission_id))

    assert (lives, found) == (True, [it])


THREADS_WITHOUT_ENVIRONMENT = """\
import sys, threading
threading.Thread(target=sys.stdin.read).start()
print("started", flush=True)
"""


def test_a_process_with_threads_and_no_environment_is_looked_at_once(
    submission_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it is looked at again"))
    command = [sys.executable, "-S", "-c", THREADS_WITHOUT_ENVIRONMENT]
    with subprocess.Popen(command, env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()

        assert not has_stamp(process.pid, submission_id)


def test_a_pid_that_another_process_has_got_since_its_stamp_was_read_is_not_of_the_submission(
    sleeper: subprocess.Popen[bytes], submission_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is another one by the time it is identified."""
    looks = iter([True, False])
    monkeypatch.setattr(process_module, "_other_pids", lambda: [sleeper.pid])
    monkeypatch.setattr(process_module, "has_stamp", lambda _pid, _id: next(looks))

    assert list(stamped(submission_id)) == []


def test_a_process_that_runs_as_another_user_by_now_is_not_signalled(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    it = identity(sleeper)
    monkeypatch.setattr(signal, "pidfd_send_signal", refuse)

    assert not send(it, signal.SIGTERM)


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


def test_the_submissions_with_processes_are_those_of_the_stamps(
    sleeper: subprocess.Popen[bytes], submission_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first scan is of before its start."""
    scans = iter([[name for name in os.listdir("/proc") if name != str(sleeper.pid)]])
    scan = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: next(scans, None) or scan(path))
    with subprocess.Popen(["/bin/cat"], env={STAMP: "no submission"}, stdin=subprocess.PIPE):
        found = with_processes()

    assert submission_id in found


STARTING = """\
import os, sys
left = int(sys.argv[1])
left and os.execv(sys.executable, [sys.executable, "-S", "-c", os.environ["PROGRAM"], str(left - 1)])
sys.stdin.read()
"""

STARTING_IN_A_THREAD = """\
import os, sys, threading
def start():
    os.execv(sys.executable, [sys.executable, "-S", "-c", os.environ["PROGRAM"], str(int(sys.argv[1]) - 1)])
sys.argv[1] != "0" and threading.Thread(target=start).start()
sys.stdin.read()
"""


@pytest.mark.parametrize("program", [STARTING, STARTING_IN_A_THREAD])
def test_a_process_that_starts_a_program_lives_and_keeps_its_stamp(submission_id: UUID, program: str) -> None:
    env = {STAMP: str(submission_id), "PROGRAM": program, **{f"V{number}": "" for number in range(2000)}}
    command = [sys.executable, "-S", "-c", program, "50"]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE) as process:
        it, found = identity(process), 0
        while b"\x000\0" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
            assert (has_stamp(process.pid, submission_id), alive(it)) == (True, True), f"after it was found {found} times"
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

    assert sleeper.wait(60) == -signal.SIGTERM


def test_ending_asks_first(sleeper: subprocess.Popen[bytes], submission_id: UUID) -> None:
    ended = end_all(submission_id, grace_s=10)

    assert ended == 1
    assert sleeper.wait() == -signal.SIGTERM


def test_ending_kills_what_does_not_listen(submission_id: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a task has stopped the clock, as for a test."""
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"
    env = os.environ | {STAMP: str(submission_id)}
    with subprocess.Popen([sys.executable, "-c", deaf], env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()

        end_all(submission_id, grace_s=0.1)

        assert process.wait() == -signal.SIGKILL


def test_ending_finds_descendants_that_have_no_stamp(submission_id: UUID) -> None:
    """The parent ends first, so the other one is the child of no process of the task any more."""
    deaf = "env -i sh -c 'trap \"\" TERM; echo $$; while true; do sleep 0.1; done'"
    with subprocess.Popen(
        ["/bin/sh", "-c", f"env -i sh -c {shlex.quote(f'{deaf} & wait')} & wait"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        last = identify(int(process.stdout.readline()))
        assert last is not None

        ended = end_all(submission_id, grace_s=0.3, others=partial(below, process.pid))
        is_left = send(last, signal.SIGKILL)
        process.kill()

    assert (ended >= 2, is_left) == (True, False)


async def test_waiting_ends_with_the_process(sleeper: subprocess.Popen[bytes]) -> None:
    it = identity(sleeper)

    with anyio.move_on_after(0.05) as too_early:
        await until_gone(it)
    sleeper.kill()
    with anyio.fail_after(60):
        await until_gone(it)
        await until_gone(it)

    assert too_early.cancelled_caught


def test_the_end_of_a_log_that_grows_while_it_is_read_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"1")

    class Growing(io.BufferedReader):
        def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
            place = super().seek(offset, whence)
            log.write_bytes(b"2" * TAIL_BYTES * 2)
            return place

    monkeypatch.setattr(os, "fdopen", lambda descriptor, _mode: Growing(io.FileIO(descriptor)))

    assert len(tail(log, 0)) == TAIL_BYTES


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (15, "SIGTERM"), (37, "signal 37")])
def test_a_signal_has_a_name_or_a_number(number: int, name: str) -> None:
    assert signal_name(number) == name
