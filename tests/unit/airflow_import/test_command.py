"""`tidegate import-airflow`: what it prints and writes, and its exit codes."""

import json
from pathlib import Path

import pytest

from tidegate.daemon.cli.app import run

COMPLETE = """
from airflow import DAG
from airflow.operators.empty import EmptyOperator
with DAG("complete", schedule=None) as dag:
    EmptyOperator(task_id="a")
"""
LACKING = COMPLETE.replace("complete", "lacking").replace('task_id="a"', 'task_id="a", queue="fast"')


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "airflow"
    (folder / "sub").mkdir(parents=True)
    (folder / "complete.py").write_text(COMPLETE)
    (folder / "sub" / "lacking.py").write_text(LACKING)
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "skipped.py").write_text("(")
    return tmp_path


def test_what_is_left_out_is_a_list_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["import-airflow", "airflow"])

    printed = capsys.readouterr()
    assert code == 1
    assert printed.out.splitlines() == [
        "airflow/sub/lacking.py:5: queue= of EmptyOperator",
        "    tasks go to a backend by their kind, not to a queue; leave it out",
    ]
    assert printed.err.splitlines() == ["2 files translated, 1 part left out", "nothing was written; add --output DIR"]


def test_the_list_fits_a_terminal(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    (here / "airflow/long.py").write_text(COMPLETE + "    lost(\n        'a' * 3,\n" + "        'b',\n" * 9 + "    )\n")

    run(["import-airflow", "airflow/long.py"])

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "airflow/long.py:6: lost('a' * 3, 'b', 'b', 'b', 'b', 'b',"
    assert max(map(len, lines)) <= 60


def test_a_complete_translation_is_written_and_passes_check(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["import-airflow", "airflow/complete.py", "--output", "dags"])

    assert code == 0
    assert (here / "dags/complete.py").read_text().startswith("from tidegate import Dag\n")
    assert "check the files with `tidegate check dags`" in capsys.readouterr().err
    assert run(["check", "dags"]) == 0


def test_folders_keep_their_structure_and_only_files_of_others_are_not_replaced(here: Path) -> None:
    assert run(["import-airflow", "airflow", "-o", "dags"]) == 1
    assert run(["import-airflow", "airflow", "-o", "dags"]) == 1
    (here / "dags/sub/lacking.py").write_text("# changed by hand\n")
    assert run(["import-airflow", "airflow", "-o", "dags"]) == 2
    assert (here / "dags/sub/lacking.py").read_text() == "# changed by hand\n"

    assert run(["import-airflow", "airflow", "-o", "dags", "--overwrite"]) == 1

    assert "Dag(" in (here / "dags/sub/lacking.py").read_text()
    assert not (here / "dags/.hidden").exists()


def test_a_reader_of_a_replaced_file_finds_all_of_the_old_one(here: Path) -> None:
    (here / "dags").mkdir()
    (here / "dags/complete.py").write_text("# the old file\n")
    with (here / "dags/complete.py").open() as reader:
        assert run(["import-airflow", "airflow/complete.py", "-o", "dags", "--overwrite"]) == 0

        assert reader.read() == "# the old file\n"


def test_two_files_of_one_name_do_not_replace_each_other(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "complete.py").write_text(LACKING)

    code = run(["import-airflow", "airflow/complete.py", "complete.py", "-o", "dags"])

    assert code == 2
    assert "dags/complete.py was written for airflow/complete.py; it was not written" in capsys.readouterr().err


def test_an_unreadable_file_is_reported_and_the_others_are_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "airflow/broken.py").write_text("with DAG(:\n")

    code = run(["import-airflow", "airflow", "-o", "dags"])

    assert code == 2
    assert "airflow/broken.py:1: it is not valid Python: invalid syntax" in capsys.readouterr().err
    assert (here / "dags/complete.py").exists()
    assert not (here / "dags/broken.py").exists()


def test_json_has_each_file_with_its_text_and_what_it_lacks(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "airflow/broken.py").write_text("(")

    code = run(["import-airflow", "airflow", "--json"])

    broken, complete, lacking = json.loads(capsys.readouterr().out)
    assert code == 2
    assert broken["text"] is None
    assert "was never closed" in broken["problem"]
    assert (complete["left_out"], complete["problem"]) == ([], None)
    assert lacking["left_out"] == [
        {
            "line": 5,
            "end_line": 5,
            "what": "queue= of EmptyOperator",
            "why": "tasks go to a backend by their kind, not to a queue",
            "instead": "leave it out",
        }
    ]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["missing"], "missing does not exist"),
        (["airflow/.hidden/none"], "does not exist"),
        (["empty"], "there are no Python files below them"),
        ([], "missing argument"),
    ],
)
def test_wrong_usage_is_exit_code_2(args: list[str], problem: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "empty").mkdir()

    assert run(["import-airflow", *args]) == 2
    assert problem in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_one_sentence(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "file").write_text("")

    assert run(["import-airflow", "airflow/complete.py", "-o", "file/below"]) == 2
    assert "file/below/complete.py cannot be written: Not a directory" in capsys.readouterr().err
