"""Programs of tasks: run without a shell, with output to the log; the exit code is the outcome."""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tidegate.daemon.spark.process import tail
from tidegate.daemon.spark.regular_file import DamagedError
from tidegate.daemon.spark.runner.failure_reason import TaskError, from_log


def run(argv: Sequence[str], env: Mapping[str, str], log: Path, name: str) -> None:
    """Return after exit code 0. Raises TaskError with the exit code and the reason otherwise, or when it did not start."""
    start = log.lstat().st_size
    try:
        code = subprocess.call(argv, stdin=subprocess.DEVNULL, env=env)  # noqa: S603 - an argument list, and no shell
    except (OSError, ValueError) as error:
        raise TaskError(f"{name} could not be started: {error.strerror if isinstance(error, OSError) else error}") from error
    if code < 0:
        raise TaskError(f"{name} was killed by {signal.Signals(-code).name}", code)
    if code > 0:
        reason = ""
        with suppress(OSError, DamagedError):  # the program can have removed or replaced its log
            reason = from_log(tail(log, start))
        raise TaskError(f"{name} ended with exit code {code}" + (f": {reason}" if reason else ""), code)
