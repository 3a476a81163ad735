"""The interpreter of a task: what activates its environment, and the environments that cannot run functions."""

import os
import re
import sys
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from tests.unit.spark.test_spool import prepared
from tidegate.daemon.spark.runner import kinds, own_python
from tidegate.daemon.spark.runner.execution import Execution
from tidegate.daemon.spark.runner.failure_reason import TaskError
from tidegate.schemas.dag import CommandTask, FunctionTask


def program(path: Path, text: str, mode: int = 0o755) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return str(path)


def test_an_interpreter_that_a_host_cannot_start_is_named_with_the_host(tmp_path: Path) -> None:
    own_python.check("", "vm")
    own_python.check(sys.executable, "vm")

    with pytest.raises(TaskError, match=r"^python '.*/gone' does not exist on host vm$"):
        own_python.check(str(tmp_path / "gone"), "vm")
    with pytest.raises(TaskError, match=r"^python '.*/python' is not executable on host vm$"):
        own_python.check(program(tmp_path / "python", "", 0o600), "vm")


def test_the_programs_of_the_environment_come_first(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    python = str(tmp_path / "bin" / "python")
    plain = own_python.variables(python, {"PATH": "/bin"})
    (tmp_path / "pyvenv.cfg").touch()

    assert plain == {"PATH": f"{tmp_path}/bin:/bin"}
    assert own_python.variables(python, {"PATH": "/bin"}) == {"PATH": f"{tmp_path}/bin:/bin", "VIRTUAL_ENV": str(tmp_path)}


def test_the_environment_of_the_daemon_comes_first_too_if_it_is_virtual_or_not_on_the_path(tmp_path: Path) -> None:
    python = str(tmp_path / "bin" / "python")

    assert own_python.of_daemon(python, {"PATH": "/bin"}) == {"PATH": f"{tmp_path}/bin:/bin"}
    assert own_python.of_daemon(python, {"PATH": f"/bin:{tmp_path}/bin"}) == {}
    (tmp_path / "pyvenv.cfg").touch()
    assert own_python.of_daemon(python, {"PATH": f"/bin:{tmp_path}/bin"})["PATH"] == f"{tmp_path}/bin:/bin:{tmp_path}/bin"


def test_a_command_runs_with_the_python_of_this_environment_wherever_path_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`dags test` and a daemon, however it was started, find the same program."""
    program(tmp_path / "python", "exit 9")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    own = Path(sys.executable).parent / "python"
    spool = prepared(tmp_path)
    spool.log.touch()
    job = spool.job()
    assert job is not None
    task = CommandTask(task_id="c", argv=("python", "-c", "import sys; sys.exit(3)"))
    job = msgspec.structs.replace(job, dags_folder=str(tmp_path), spec=msgspec.structs.replace(job.spec, task=task))

    with pytest.raises(TaskError, match=rf"^python \({re.escape(str(own))}\) ended with exit code 3"):
        kinds.run(Execution.of(job, spool))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("echo 0.0.1", r"has tidegate 0\.0\.1, and the daemon \S+; install tidegate\[daemon,spark\]==\S+ there$"),
        (
            "echo Traceback >&2; echo 'PackageNotFoundError: No package metadata was found for tidegate' >&2; exit 1",
            r"cannot run functions: PackageNotFoundError: No package metadata was found for tidegate; install tidegate\[",
        ),
        ("exit 2", r"cannot run functions: exit code 2; install tidegate\["),
    ],
)
def test_an_environment_without_this_version_of_tidegate_says_what_to_install(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(TaskError, match=problem):
        own_python._check_version(program(tmp_path / "python", text), dict(os.environ))


def test_no_function_begins_elsewhere_whose_session_the_runner_could_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tidegate.daemon.spark.runner.session", None)  # as without pyspark
    spool = prepared(tmp_path)
    job = spool.job()
    assert job is not None
    task = FunctionTask(task_id="own", python=program(tmp_path / "python", f"touch {tmp_path}/began; exit 2"))
    job = msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, task=task))

    with pytest.raises(TaskError, match=rf"need tidegate\[spark\] in the environment of {sys.executable}: "):
        kinds.run(Execution.of(job, spool))

    assert not (tmp_path / "began").exists()


def test_libraries_that_do_not_fit_each_other_are_named_and_keep_no_attempt_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their import raises errors of any type."""

    def raise_mismatch(_name: str) -> NoReturn:
        raise TypeError("Descriptors cannot be created directly.")

    monkeypatch.setattr(kinds, "import_module", raise_mismatch)
    spool = prepared(tmp_path)
    job = spool.job()
    assert job is not None
    job = msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, task=FunctionTask(task_id="f")))

    with pytest.raises(TaskError, match=r"need tidegate\[spark\] in .*: TypeError: Descriptors cannot be created directly\."):
        kinds.run(Execution.of(job, spool))
    kinds.end(job, spool)
