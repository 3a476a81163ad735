"""Commands whose parent ignores the end of children, or blocks signals, which a process inherits."""

import signal
import subprocess
import sys
from pathlib import Path

CHECK = "from tidegate.daemon.cli.entry import main; main(['check', 'd.py'])"

SHOW_BLOCKED = """
import signal
from tidegate.daemon.cli import app
app.run = lambda _: print(*signal.pthread_sigmask(signal.SIG_BLOCK, ())) or 0
app.main([])
"""

DAG_FILE = """
from tidegate import Dag
with Dag("d") as dag:
    dag.command("t", ["true"])
"""


def ignore_children() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def block() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})


def test_a_dag_file_is_not_broken_where_the_end_of_children_is_ignored(tmp_path: Path) -> None:
    """Their exit codes are lost then."""
    (tmp_path / "d.py").write_text(DAG_FILE)

    ended = subprocess.run(
        [sys.executable, "-c", CHECK],
        cwd=tmp_path,
        preexec_fn=ignore_children,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_command_and_what_it_starts_can_be_stopped_where_that_is_blocked() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SHOW_BLOCKED], preexec_fn=block, capture_output=True, text=True, timeout=120, check=False
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "\n", "")
