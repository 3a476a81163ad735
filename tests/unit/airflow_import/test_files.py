"""Airflow files in the style of its examples: what becomes of each, and that the result is a DAG file."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.airflow_import.golden import FILES, expectation, shown, translation
from tidegate.daemon.cli.app import run
from tidegate.schemas.authoring.build import build

WITHOUT_DAGS = {"everything_lost", "plain_python", "empty_file"}


def test_there_are_enough_files_of_their_own_kind() -> None:
    assert len(FILES) >= 25


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_translation_is_the_expected_one(path: Path) -> None:
    assert shown(translation(path)) == expectation(path).read_text()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_translation_makes_dags(path: Path) -> None:
    dags = build(translation(path).text, f"{path.stem}.py")

    assert [dag.spec().dag_id for dag in dags] or path.stem in WITHOUT_DAGS


def test_all_translations_pass_check_in_the_sandbox(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for path in FILES:
        (tmp_path / f"{path.stem}.py").write_text(translation(path).text)
    # Applications and folders, which the import does not copy.
    for file in ("jobs/ingest.py", "jobs/lib.py", "aggregate.jar", "reports/numbers"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()

    code = run(["check", str(tmp_path)])

    assert code == 0, "".join(capfd.readouterr())


def test_translations_are_formatted(tmp_path: Path) -> None:
    formatted = [path for path in FILES if path.stem not in {"weird_layout"}]
    for path in formatted:
        (tmp_path / f"{path.stem}.py").write_text(translation(path).text)

    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length=100", "--diff", str(tmp_path)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)

    assert checked.stdout == ""
