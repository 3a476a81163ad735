"""Which process listens on a port, as a user sees it who is not root."""

import subprocess
import sys

import pytest

ASKS = """
import ctypes, os, socket, sys
from tidegate.daemon.dagfiles.confine import NOBODY, refuse_inspection
from tidegate.daemon.standalone.port import listens

if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE, which the change of user has cleared
server = socket.create_server(("127.0.0.1", 0))
held, hold = os.pipe()
ready, say = os.pipe()
if (pid := os.fork()) == 0:
    os.close(hold)
    if sys.argv[1] != "listens":
        server.close()
    if sys.argv[1] == "refuses":
        refuse_inspection()
    os.write(say, b"1")
    os.read(held, 1)
    os._exit(0)
os.read(ready, 1)
print(listens(pid, server.getsockname()[1]), end="")
os.close(hold)
os.waitpid(pid, 0)
print("", listens(pid, server.getsockname()[1]))
"""


@pytest.mark.parametrize(("child", "found"), [("listens", "True"), ("does not", "False"), ("refuses", "True")])
def test_a_process_that_hides_its_sockets_is_believed_while_it_lives(child: str, found: str) -> None:
    """`tidegate web` refuses inspection, and its standalone has to find out that it is ready."""
    asked = subprocess.run([sys.executable, "-c", ASKS, child], capture_output=True, text=True, timeout=30, check=True)

    assert asked.stdout == f"{found} False\n"
