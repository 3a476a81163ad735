"""DAG files whose tasks are processes on the hosts of daemons, and say in a file when they run."""

from collections.abc import Mapping
from pathlib import Path

INPUTS = 12
DAGS = 12
BEAT_S = 0.1

LONG = "long"
LONG_S = 14
"""Longer than a runner waits for its daemons."""

BEGIN, END = "begin", "end"

WORK = r"""
note() { printf '%s %s %s\n' "$TASK_SUBMISSION_ID" "$EPOCHREALTIME" "$1" >> "$JOURNAL"; }
beat() { for ((left = $1 * 10; left > 0; left--)); do read -rt 0.1 -u "$silence" || note beat; done; }
exec {silence}<> <(:)
"""
"""Functions of bash. `silence` is read until the time is over, which needs no process of its own."""

FILE = """\
from datetime import timedelta

from tidegate import Dag, Dataset

WORK = {work!r}
QUICK = WORK + "note begin; beat $1; note end"
# Not impressed by SIGTERM, and neither is the process in a session of its own that it leaves alone.
STUBBORN = WORK + "trap '' TERM; note begin; (setsid bash -c \\"$1 beat $2\\" &) ; beat $2; note end"


def work(dag, task_id, seconds, **facts):
    return dag.command(task_id, ["bash", "-c", QUICK, "work", str(seconds)], retry_delay=timedelta(seconds=0.2), **facts)


for i in range(12):
    with Dag(f"runner_{{i}}", schedule=Dataset(f"storm://in/{{i}}"), max_active_runs=2) as dag:
        if i < 4:
            work(dag, "short", 1, retries=2)
        elif i < 10 - {long_dags}:
            work(dag, "first", 2, retries=3) >> work(dag, "second", 4, retries=3)
        elif i < 10:
            work(dag, {long!r}, {long_s}, retries=1)
        else:
            dag.command("stubborn", ["bash", "-c", STUBBORN, "work", WORK, "3"], retries=2, retry_delay=timedelta(seconds=0.2))
"""


def files(journal: Path, long_dags: int) -> Mapping[str, str]:
    """Each line of the journal is the stamp of an attempt, the time in seconds since 1970, and what it does."""
    work = f"JOURNAL={journal}\n{WORK}"
    return {"runners.py": FILE.format(work=work, long=LONG, long_s=LONG_S, long_dags=long_dags)}
