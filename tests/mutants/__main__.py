"""Mutation testing: `python -m tests.mutants` changes one thing at a time, and tells which changes no unit test notices.

mutmut makes the mutants and runs the tests. It works on a copy in `.cache/mutants`, in which `src/tidegate` is a real folder.
"""

import ast
import os
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

from tests.documents import ROOT
from tests.mutants.survivors import EQUIVALENT, Score, equivalents, judge

STAGE = ROOT / ".cache" / "mutants"
PRODUCT = "src/tidegate"

PATHS = ("handlers/*", "schemas/*")
"""What is mutated: decisions, which unit tests hold. `async` functions and `schemas/queries/` read Postgres, and are left out."""

LEAST = 97.0
"""Percent of the mutants of each folder that unit tests notice at least."""


def stage(paths: list[str]) -> None:
    """Copy the product and its tests afresh, so that no result is of an earlier tree."""
    shutil.rmtree(STAGE, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / ".src" / "tidegate", STAGE / PRODUCT, ignore=ignored)
    shutil.copytree(ROOT / "tests", STAGE / "tests", ignore=ignored)
    for path in (STAGE / PRODUCT / "handlers").rglob("*.py"):
        path.write_text(spare_async(path.read_text()))
    chosen = ", ".join(f'"{PRODUCT}/{path}"' for path in paths)
    template = Path(__file__).with_name("stage.toml").read_text()
    (STAGE / "pyproject.toml").write_text(template.replace("only_mutate = []", f"only_mutate = [{chosen}]"))


def spare_async(source: str) -> str:
    """The same module with the comment that keeps mutmut off each `async` function."""
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AsyncFunctionDef):
            header = max(number for number in range(node.lineno, node.body[0].lineno) if lines[number - 1].endswith(":"))
            lines[header - 1] += "  # pragma: no mutate block"
    return "\n".join(lines)


def main() -> int:
    parser = ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("paths", nargs="*", default=PATHS, help='such as "handlers/tasks/*"')
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    stage(list(chosen.paths))
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", f"{chosen.jobs}"]
    done = subprocess.run(command, cwd=STAGE, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.stdout.write(f"error: mutmut ended with {done.returncode}:\n{done.stdout[-3000:]}\n")
        return 2
    return _tell(judge(STAGE, equivalents()))


def _tell(scores: dict[str, Score]) -> int:
    for folder, score in sorted(scores.items()):
        sys.stdout.write(f"{folder}: {score.noticed} of {score.mutants} noticed, {score.percent:.1f} %\n")
        sys.stdout.writelines(f"    {survivor}\n" for survivor in score.survivors)
    missed = [folder for folder, score in sorted(scores.items()) if score.percent < LEAST]
    for folder in missed:
        sys.stdout.write(f"error: {folder} is below {LEAST} %: add cases to its unit tests, or a reason to {EQUIVALENT}\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
