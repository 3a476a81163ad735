"""How the Makefile installs the Python packages: in a folder of its own, with a pip that only says what it was asked."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STAMP = ".venv/.installed"
SITE = ".venv/lib/python3.11/site-packages"
HALT = "Spark is being built"
PIP = f"""#!/bin/sh
echo "$*" >> pip.log
case "$*" in *spark.lock) [ ! -p gate ] || exec {sys.executable} -ISc 'print("{HALT}", flush=True); open("gate").read()' ;; esac
"""
PYTHON = f"""#!/bin/sh
[ "$2" = venv ] || exec {sys.executable} "$@"
mkdir -p .venv/bin {SITE}/package && cp pip python .venv/bin
"""
Make = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("Makefile", "requirements.lock", "build.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for name, program in {"pip": PIP, "python": PYTHON}.items():
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o755)
    return tmp_path


@pytest.fixture
def make(folder: Path) -> Iterator[Make]:
    """Starts make, with nothing of the make that runs the tests."""
    with ExitStack() as started:

        def start(python: str = "./python", target: str = STAMP) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                ["make", target, f"PYTHON={python}"],  # noqa: S607 - whichever there is
                cwd=folder,
                env={"PATH": os.environ["PATH"]},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            started.callback(_end, started.enter_context(process))
            return process

        yield start


def _end(process: subprocess.Popen[str]) -> None:
    """All of its processes; some may be left after it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _installed(folder: Path) -> list[str]:
    """The last words of each request to pip since the last look."""
    log = folder / "pip.log"
    words = [line.split()[-1] for line in log.read_text().splitlines()] if log.exists() else []
    log.unlink(missing_ok=True)
    return words


def _halted(make: Make, folder: Path) -> subprocess.Popen[str]:
    """A make that installs until `gate` is written to."""
    os.mkfifo(folder / "gate")
    process = make()
    assert process.stdout
    assert HALT in (line.strip() for line in process.stdout)
    return process


def _replace_interpreter(folder: Path) -> None:
    (folder / ".venv/bin/python").unlink()
    (folder / ".venv/bin/python").symlink_to(folder / "python that was removed")


@pytest.mark.parametrize("python", ["true", "false", "./absent", "'no python'"])
def test_a_python_that_is_none_is_named(make: Make, folder: Path, python: str) -> None:
    output, _ = make(python).communicate()

    assert output.startswith(f"error: {python} is not Python 3.11 or newer: ")
    assert not (folder / ".venv").exists()


@pytest.mark.parametrize(
    "damage",
    [
        _replace_interpreter,
        lambda folder: (folder / ".venv/bin/pip").unlink(),
        lambda folder: (folder / SITE / "package").rmdir(),
        lambda folder: shutil.rmtree(folder / SITE),
        lambda folder: (folder / STAMP).unlink(),
        lambda folder: (folder / STAMP).write_text("/moved\n"),
    ],
    ids=["interpreter", "program", "package", "packages", "interrupted", "moved"],
)
def test_a_damaged_environment_is_made_again(make: Make, folder: Path, damage: Callable[[Path], object]) -> None:
    assert make().wait() == 0
    _installed(folder)

    damage(folder)

    assert make().wait() == 0
    assert set(_installed(folder)) == {"build.lock", ".venv/spark.lock", ".venv/others.lock", ".", "check"}
    assert (folder / ".venv/bin/pip").exists()
    assert (folder / SITE / "package").exists()


def test_a_complete_environment_stays_until_a_lock_is_newer(make: Make, folder: Path) -> None:
    assert make().wait() == 0
    (folder / SITE / "another").mkdir()
    _installed(folder)

    assert make().wait() == 0
    assert _installed(folder) == []

    (folder / "build.lock").touch()

    assert make().wait() == 0
    assert "build.lock" in _installed(folder)
    assert (folder / SITE / "another").exists()


@pytest.mark.skipif(not shutil.which("flock"), reason="needs flock of util-linux")
def test_of_two_makes_one_installs(make: Make, folder: Path) -> None:
    first = _halted(make, folder)
    second = make()
    assert second.stdout
    waiting = second.stdout.readline()

    (folder / "gate").write_text("")
    (folder / "gate").unlink()

    assert (first.wait(), second.wait()) == (0, 0)
    assert waiting == "Waiting for another make, which installs the Python packages\n"
    assert _installed(folder).count("build.lock") == 1


def test_an_interrupt_ends_all_that_install(make: Make, folder: Path) -> None:
    process = _halted(make, folder)

    os.killpg(process.pid, signal.SIGINT)

    process.communicate(timeout=60)  # ends with the last process that could write there
    assert process.returncode != 0
    assert not (folder / STAMP).exists()


def test_clean_leaves_the_checkout(make: Make, folder: Path) -> None:
    before = {path.name for path in folder.iterdir()}
    for cache in (".venv/bin", ".ruff_cache", "handlers/.ruff_cache/0.1", ".src/tidegate/__pycache__", "tests/unit/__pycache__"):
        (folder / cache).mkdir(parents=True)

    assert make(target="clean").wait() == 0

    assert {path.name for path in folder.rglob("*")} == before | {"handlers", ".src", "tidegate", "tests", "unit"}
