"""A command as the first process of a container."""

import subprocess
import sys

import pytest

COMMAND = """
import os, signal, sys, time
from tidegate.daemon.cli.first_process import leave_to_parent
from tidegate.daemon.dagfiles.confine import enter_process_namespace

if not enter_process_namespace():
    sys.exit("no namespaces")
if (first := os.fork()) != 0:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]))

leave_to_parent()
read, write = os.pipe()
if (between := os.fork()) == 0:
    if (orphan := os.fork()) == 0:
        os._exit(0)
    os.write(write, str(orphan).encode())
    os._exit(0)
os.waitpid(between, 0)
orphan = int(os.read(read, 9))
until = time.monotonic() + 20
while time.monotonic() < until:
    try:
        os.kill(orphan, 0)
    except ProcessLookupError:
        print("waited for", flush=True)
        break
    time.sleep(0.01)
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
os.kill(1, signal.SIGTERM)
time.sleep(20)
"""


def test_it_waits_for_orphans_passes_signals_on_and_ends_as_its_command() -> None:
    ended = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, timeout=60, check=False)

    if "no namespaces" in ended.stderr:
        pytest.skip("this user may have no namespaces")
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "waited for\n", "")
