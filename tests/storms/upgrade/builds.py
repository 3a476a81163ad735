"""Other builds of this project: the one before the last migration, and one after it."""

import shutil
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

from tests.storms.processes import ROOT

MIGRATIONS = "schemas/migrations"
PARTS = (".src", "daemon", "events", "handlers", "schemas", "tests")
NEXT = "9999_next.sql"
EXPANDED = """\
ALTER TABLE dag_run ADD COLUMN of_next text;
ALTER TABLE dag_run ADD COLUMN of_next_too integer NOT NULL DEFAULT 7;
CREATE TABLE of_next (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
"""


def previous(folder: Path) -> Path | None:
    """The tree as it was before its newest migration; None where the checkout does not go back so far."""
    commit = _git("log", "-1", "--format=%H", "--diff-filter=A", "--", f"{MIGRATIONS}/{_newest()}")
    tree = _git("archive", f"{commit.decode().strip()}^" if commit else "HEAD")
    if not tree:
        return None
    with tarfile.open(fileobj=BytesIO(tree)) as archive:
        archive.extractall(folder, filter="tar")
    return folder


def next_one(folder: Path) -> Path:
    """The tree as it is, with one more migration, which adds to what there is."""
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / MIGRATIONS / NEXT).write_text(EXPANDED)
    return folder


def command(*words: str) -> tuple[str, ...]:
    """`tidegate` of whatever build the environment says."""
    return (sys.executable, "-c", "from tidegate.daemon.cli.app import main; main()", *words)


def _newest() -> str:
    return max(path.name for path in (ROOT / MIGRATIONS).glob("*.sql"))


def _git(*words: str) -> bytes:
    """Nothing where there is no git, no repository, or no such thing in it."""
    try:
        return subprocess.run((shutil.which("git") or "git", "-C", str(ROOT), *words), capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return b""
