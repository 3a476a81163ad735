"""What the tasks of the contract tests do, on every backend: a file records that the application ran."""

import os
import sys
import time
from pathlib import Path

CHATTER_LINES = 60_000


def work(mode: str, out: str) -> None:
    sys.stdout.write(f"working: {mode}\n")
    sys.stdout.flush()
    with Path(out).open("a") as file:  # last: it ends the wait of a test
        file.write(f"{os.getpid()}\n")
    match mode:
        case "fail":
            raise ValueError("no flights on this day")
        case "wait":
            time.sleep(3600)
        case "chatter":
            for number in range(CHATTER_LINES):
                sys.stdout.write(f"line {number} of a task that has much to say\n")
        case _:
            return
