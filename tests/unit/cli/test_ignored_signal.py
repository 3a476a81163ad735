"""Commands where the end of children is ignored, which a process inherits: their exit codes are lost then."""

import signal
import subprocess
import sys
from pathlib import Path

COMMAND = "from tidegate.daemon.cli.entry import main; main()"

DAG_FILE = """
from tidegate import Dag
with Dag("d") as dag:
    dag.command("t", ["true"])
"""


def ignore_children() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def test_a_dag_file_is_not_broken_where_the_end_of_children_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "d.py").write_text(DAG_FILE)

    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, "check", "d.py"],
        cwd=tmp_path,
        preexec_fn=ignore_children,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
