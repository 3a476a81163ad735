"""The generator of clients that a test runs: openapi-python-client, apart from the packages of Tidegate, whose typer is newer.

`python -m tests.client_generator` installs it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

LOCK = Path(__file__).with_name("client_generator.lock")
FOLDER = Path(sys.prefix) / ".client-generator"
INSTALL = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "--require-hashes")


def installed() -> Path:
    """The folder of the locked packages, which several processes may install at a time."""
    kept = FOLDER / LOCK.name
    if not kept.exists() or kept.read_bytes() != LOCK.read_bytes():
        made = Path(mkdtemp(dir=sys.prefix, prefix=".client-generator-"))
        subprocess.run([*INSTALL, "--target", str(made), "--requirement", str(LOCK)], check=True)
        shutil.copy(LOCK, made)
        shutil.rmtree(FOLDER, ignore_errors=True)
        try:
            made.rename(FOLDER)
        except OSError:  # of another process
            shutil.rmtree(made)
    return FOLDER


def command(document: Path, options: Path, package: Path) -> list[str]:
    """The command that generates a package, to be run in `environment()`."""
    given = ("--path", document, "--config", options, "--output-path", package)
    program = (sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none", "--fail-on-warning")
    return [*program, *map(str, given)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(installed())}


if __name__ == "__main__":
    installed()
