"""The interpreter of a task: an environment of its own on the host, which the task uses instead of the daemon's.

A function runs there in a process of its own, which imports Tidegate of the same version; the runner stays in the daemon's.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tidegate.daemon.spark.regular_file import DamagedError, read_regular
from tidegate.daemon.spark.runner import child
from tidegate.daemon.spark.runner.execution import Execution
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.daemon.spark.spool import Outcome
from tidegate.schemas.wire.event import MAX_RECORD_BYTES

MODULE = "tidegate.daemon.spark.runner.function"
OUTCOME = "function.json"
ANSWERS_S = 60.0

_VERSION = "from importlib.metadata import version; print(version('tidegate'))"


def check(python: str, host: str) -> None:
    """Raises TaskError for an interpreter that this host cannot start."""
    if python and not os.path.isfile(python):
        raise TaskError(f"python {python!r} does not exist on host {host}")
    if python and not os.access(python, os.X_OK):
        raise TaskError(f"python {python!r} is not executable on host {host}")


def variables(python: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that activate the environment: its programs come first on the path."""
    folder = Path(python).parent
    found = {"PATH": f"{folder}:{environ.get('PATH', os.defpath)}"}
    return {**found, "VIRTUAL_ENV": str(folder.parent)} if _is_virtual(folder) else found


def of_daemon(python: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that activate the daemon's own environment; its service may have been started without them.

    The folder of an interpreter that is no virtual environment and is on the path, such as /usr/bin, keeps its place there.
    """
    folder = Path(python).parent
    is_found = str(folder) in environ.get("PATH", "").split(os.pathsep)
    return {} if is_found and not _is_virtual(folder) else variables(python, environ)


def _is_virtual(folder: Path) -> bool:
    return (folder.parent / "pyvenv.cfg").exists()


def call(execution: Execution, python: str, env: Mapping[str, str]) -> Outcome:
    """Run the function of the task there; returns its outcome, and gives `run` its events. Raises TaskError."""
    _check_version(python, env)
    outcome = execution.spool.work / OUTCOME
    command = [python, "-P", "-m", MODULE, str(execution.spool.path), str(outcome)]
    try:
        child.run(command, env, execution, python)
        return _read(outcome, execution)
    finally:
        outcome.unlink(missing_ok=True)  # its reason may quote a secret


def _check_version(python: str, env: Mapping[str, str]) -> None:
    """The environment needs the same version: the spool is its interface."""
    from importlib.metadata import version  # noqa: PLC0415 - every runner would take longer to start, and few tasks need it

    own = version("tidegate")
    hint = f"install tidegate[daemon,spark]=={own} there"
    try:
        found = subprocess.run(  # noqa: S603 - an interpreter that the DAG file names
            [python, "-P", "-c", _VERSION],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWERS_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TaskError(f"python {python!r} could not be started: {error}") from error
    if found.returncode:
        last = found.stderr.strip().rpartition("\n")[2] or f"exit code {found.returncode}"
        raise TaskError(f"python {python!r} cannot run functions: {last}; {hint}")
    if found.stdout.strip() != own:
        raise TaskError(f"python {python!r} has tidegate {found.stdout.strip()}, and the daemon {own}; {hint}")


def _read(path: Path, execution: Execution) -> Outcome:
    try:
        outcome = msgspec.json.decode(read_regular(path, MAX_RECORD_BYTES), type=Outcome)
    except (FileNotFoundError, DamagedError, ValueError) as error:
        raise TaskError(f"the function ended without an outcome: {error}") from error
    for uri, extra in (outcome.outlets or {}).items():
        execution.run.outlets[uri].extra.update(extra)
    for event in outcome.events or ():
        execution.run.publish(event.uri, event.extra)
    return outcome
