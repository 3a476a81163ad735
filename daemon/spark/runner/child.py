"""Programs of tasks: run without a shell, with output to the log; the exit code is the outcome, a file has their events."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import which

from tidegate.daemon.spark.process import signal_name, tail
from tidegate.daemon.spark.regular_file import DamagedError
from tidegate.daemon.spark.runner import event_lines
from tidegate.daemon.spark.runner.execution import Execution
from tidegate.daemon.spark.runner.failure_reason import TaskError, one_line
from tidegate.daemon.spark.runner.log_reason import from_log


def run(argv: Sequence[str], env: Mapping[str, str], execution: Execution, name: str, cwd: Path | None = None) -> None:
    """Return after exit code 0, with the events of the program in the run. `cwd` is this process's by default.

    Raises TaskError with the exit code and the reason otherwise, when it did not start, or when its events are not valid.
    """
    lines = execution.spool.work / event_lines.NAME
    _call(argv, {**env, event_lines.VARIABLE: str(lines)}, execution, name, cwd)
    event_lines.read(lines, execution.run)


def named(program: str, env: Mapping[str, str], host: str) -> str:
    """The program for reasons: with its path, if it is found on `PATH`. Raises TaskError if it is not."""
    if os.sep in program:
        return program
    path = env.get("PATH", os.defpath)
    if (found := which(program, path=path)) is None:
        raise TaskError(f"{program} could not be started: no folder of PATH on host {host} has it: {path}")
    return f"{program} ({found})"


def _call(argv: Sequence[str], env: Mapping[str, str], execution: Execution, name: str, cwd: Path | None) -> None:
    log = execution.spool.log
    start = log.lstat().st_size
    try:
        program = subprocess.Popen(argv, stdin=subprocess.DEVNULL, env=env, cwd=cwd)  # noqa: S603 - a list, and no shell
    except (OSError, ValueError) as error:
        raise TaskError(f"{name} could not be started: {error.strerror if isinstance(error, OSError) else error}") from error
    if (code := _ended(program)) < 0:
        raise TaskError(f"{name} was killed by {signal_name(-code)}", code)
    if code > 0:
        reason = ""
        with suppress(OSError, DamagedError):  # the program can have removed or replaced its log
            reason = one_line(from_log(tail(log, start), _folders(execution)))
        raise TaskError(f"{name} ended with exit code {code}" + (f": {reason}" if reason else ""), code)


def _folders(execution: Execution) -> tuple[Path, ...]:
    """The folders with the files of the author: applications are copied to the temporary files."""
    return execution.spool.work / "application", execution.spool.tmp / "application", Path(execution.job.dags_folder)


def _ended(program: "subprocess.Popen[bytes]") -> int:
    """The exit code, when the program has ended. Until then, waits for each orphan that ends: the runner adopts them.

    Else they would stay as zombies, and a program that leaves many could start no more processes in the end. The runner has no
    other child meanwhile, whose exit code would be lost here.
    """
    while True:
        pid, status = os.wait()
        if pid == program.pid:
            program.returncode = os.waitstatus_to_exitcode(status)
            return program.returncode
