"""What the tasks of a scenario do, on every backend: each execution writes a line to the journal and a row.

As a program: `work.py FOLDER MODE spark|plain`. It ends when there is a file `go-STAMP` in the folder.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PATIENCE_S = 120.0

Echo = Callable[[str], str]
"""Give back what is given."""


def work(folder: str, mode: str, begin: Callable[[], Echo]) -> None:
    home = Path(folder)
    tell(home, "accepted")
    try:
        perform(home, mode, begin)
    except BaseException:
        tell(home, "ended", "failed")
        raise
    tell(home, "ended", "succeeded")


def perform(home: Path, mode: str, begin: Callable[[], Echo]) -> None:
    """Leave a row, as Spark says it. In mode `fail_once` raise instead, but only in the attempt that came first."""
    echo = begin()
    until_told(home / f"go-{stamp()}")
    if mode == "fail_once" and stamp() == first(home):
        raise ValueError("no flights on this day")
    add(home / "rows", echo(stamp()))


def stamp() -> str:
    return os.environ["TASK_SUBMISSION_ID"]


def first(home: Path) -> str:
    """The stamp of the attempt that came first."""
    with (home / "journal").open() as journal:
        return str(json.loads(journal.readline())["stamp"])


def tell(home: Path, what: str, outcome: str = "") -> None:
    entry = {
        "what": what,
        "at": datetime.now(UTC).isoformat(),
        "stamp": stamp(),
        "application": f"process {os.getpid()}",
        "outcome": outcome,
    }
    add(home / "journal", json.dumps(entry))


def add(file: Path, line: str) -> None:
    with file.open("a") as lines:
        lines.write(f"{line}\n")


def until_told(go: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not go.exists():
        if time.monotonic() > deadline:
            raise TimeoutError("go was not said")
        time.sleep(0.02)


def connected(spark: Any) -> Echo:
    return lambda row: str(spark.sql(f"SELECT '{row}'").first()[0])


def submitted() -> Echo:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - a plain program does without

    return connected(SparkSession.builder.getOrCreate())


def plain() -> Echo:
    return str


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], submitted if sys.argv[3] == "spark" else plain)
