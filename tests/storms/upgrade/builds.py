"""The next build of this project: this tree with one more migration."""

import shutil
import sys
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


def next_one(folder: Path) -> Path:
    """The tree as it is, with one more migration, which adds to what there is."""
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / MIGRATIONS / NEXT).write_text(EXPANDED)
    return folder


def command(*words: str) -> tuple[str, ...]:
    """`tidegate` of the build that the environment names."""
    return (sys.executable, "-c", "from tidegate.daemon.cli.app import main; main()", *words)
