"""The DAG folder of the stage: one DAG of one task, by the backend that runs it."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

WORK = Path(__file__).with_name("work.py")

DAG_FILE = """\
from datetime import timedelta

from tidegate import Dag, Dataset

SETTINGS = {{"retries": 1, "retry_delay": timedelta(seconds=0.1), "outlets": [Dataset("lake://made")]}}

with Dag("made", schedule=Dataset("lake://given")) as dag:
{task}
"""
FUNCTION = """\
    @dag.task(**SETTINGS)
    def make(spark, run):
        from work import connected, work

        work(run.events[0].extra["folder"], run.events[0].extra["mode"], lambda: connected(spark))
"""
GIVEN = '"{{ events[0].extra.folder }}", "{{ events[0].extra.mode }}"'
TASKS: Mapping[str, str] = {
    "spark-connect": FUNCTION,
    "spark-submit": f'    dag.submit("make", "work.py", args=[{GIVEN}, "spark"], **SETTINGS)',
    "command": f'    dag.command("make", ["{sys.executable}", "work.py", {GIVEN}, "plain"], **SETTINGS)',
}
"""The task by the backend that runs it."""


def write(home: Path, backend: str) -> None:
    """The DAG folder, below `home`."""
    dags = home / "dags"
    dags.mkdir(parents=True)
    shutil.copy(WORK, dags)
    (dags / "made.py").write_text(DAG_FILE.format(task=TASKS[backend]))
