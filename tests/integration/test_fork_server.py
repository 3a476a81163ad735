"""A process of the fork server is as `python -m` starts one, and does not outlive the server."""

import signal
from pathlib import Path

import msgspec
import psutil

from tests import fork_server
from tests.waiting import until
from tidegate.daemon.standalone.process import Child, runs

PROGRAM = """
import json, os, sys, time

def main(arguments):
    facts = [sys.argv[1:], dict(os.environ), os.getcwd(), os.getsid(0) == os.getpid(), sorted(os.listdir("/proc/self/fd"))]
    print(json.dumps(facts), flush=True)
    if arguments == ["stay"]:
        time.sleep(600)
    sys.exit(arguments[0])
"""


async def start(folder: Path, *arguments: str) -> Child:
    (folder / "program_of_a_test.py").write_text(PROGRAM)
    return await fork_server.spawn("program_of_a_test", arguments, log=folder / arguments[0], cwd=folder, env={"OWN": "own"})


async def test_it_has_what_was_ordered_and_nothing_of_the_server(tmp_path: Path) -> None:
    other = await start(tmp_path, "stay")
    child = await start(tmp_path, "why", "so")
    code = await child.process.wait()
    await until(other.tail, 60)
    await other.end(signal.SIGTERM, within_s=60)

    facts, reason = (tmp_path / "why").read_text().splitlines()
    opened = ["0", "1", "2", "3"]  # the last by the listing itself
    assert msgspec.json.decode(facts) == [["why", "so"], {"OWN": "own"}, str(tmp_path), True, opened]
    assert (code, reason, other.process.returncode) == (1, "why", -signal.SIGTERM)


async def test_it_does_not_outlive_the_server(tmp_path: Path) -> None:
    child = await start(tmp_path, "stay")
    process = psutil.Process(child.pid)

    fork_server.close()
    code = await child.process.wait()

    await until(lambda: not runs(process), 60)
    assert code == -signal.SIGKILL
