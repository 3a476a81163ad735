"""A child on its leash."""

import os
import signal
import sys
from pathlib import Path

import anyio
import psutil
import pytest

from tests.waiting import until
from tidegate.daemon.standalone.process import Child, runs, spawn

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
PARENT = f"""
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], start_new_session=True)
time.sleep(600)
"""


async def start(tmp_path: Path, *command: str) -> Child:
    return await spawn(command, log=tmp_path / "log", cwd=tmp_path, env=os.environ, on_orphaned=signal.SIGKILL)


async def until_ready(child: Child) -> None:
    await until(lambda: "ready" in child.tail(), 60)


async def test_a_child_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    child = await start(tmp_path, sys.executable, "-c", STUBBORN)
    await until_ready(child)

    await child.end(signal.SIGTERM, within_s=0.2)

    assert child.process.returncode == -signal.SIGKILL


async def test_a_log_that_became_long_is_continued_in_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.daemon.standalone.process.MAX_LOG_BYTES", 6)
    for text in ("first", "longer", "last"):
        await (await start(tmp_path, "echo", text)).outcome()

    assert [(tmp_path / name).read_text() for name in ("log", "log.1")] == ["last\n", "first\nlonger\n"]


async def test_a_descendant_may_end_before_it_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = await start(tmp_path, "sleep", "600")
    known = psutil.Process(gone.pid)
    await gone.end(signal.SIGKILL, within_s=5)
    monkeypatch.setattr("tidegate.daemon.standalone.process.GONE_S", 0.0)
    monkeypatch.setattr("tidegate.daemon.standalone.process.descendants", lambda _: [known])
    monkeypatch.setattr("tidegate.daemon.standalone.process.runs", lambda _: True)
    child = await start(tmp_path, "sleep", "600")

    await child.end(signal.SIGTERM, within_s=5)

    assert child.process.returncode == -signal.SIGTERM


async def test_signals_to_one_that_is_ending_do_not_lose_its_exit_code(tmp_path: Path) -> None:
    children = [await start(tmp_path, "sleep", "600") for _ in range(20)]

    for child in children:
        child.send_signal(signal.SIGKILL)
        while psutil.pid_exists(child.pid):
            child.send_signal(signal.SIGCONT)
    codes = [await child.process.wait() for child in children]

    assert codes == [-signal.SIGKILL] * 20


async def test_a_grandchild_in_a_session_of_its_own_is_ended_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.daemon.standalone.process.GONE_S", 0.4)
    child = await start(tmp_path, sys.executable, "-c", PARENT)
    await until_ready(child)
    [grandchild] = psutil.Process(child.pid).children()

    await child.end(signal.SIGTERM, within_s=5)

    assert not runs(grandchild)


async def test_ending_is_not_cut_short_by_cancellation(tmp_path: Path) -> None:
    child = await start(tmp_path, sys.executable, "-c", STUBBORN)
    await until_ready(child)

    with anyio.move_on_after(0.05):
        await child.end(signal.SIGTERM, within_s=0.3)

    assert not child.alive


async def test_the_tail_is_of_this_child_alone(tmp_path: Path) -> None:
    for word in ("first", "second"):
        child = await start(tmp_path, "echo", word)
        await child.process.wait()

    assert child.tail() == "second"


async def test_the_tail_is_the_last_twenty_lines(tmp_path: Path) -> None:
    child = await start(tmp_path, "seq", "1", "100")
    await child.process.wait()

    assert child.tail().split() == [str(number) for number in range(81, 101)]


async def test_a_command_that_does_not_exist_is_told_in_the_log(tmp_path: Path) -> None:
    child = await start(tmp_path, "no-such-program")

    assert (await child.process.wait(), child.tail()) == (1, "no-such-program: No such file or directory")
