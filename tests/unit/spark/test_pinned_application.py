"""An application at the run's version, among the other files of the DAG folder as they are now."""

from pathlib import Path

from tidegate.daemon.spark.runner.pinned_application import place
from tidegate.schemas.dag import ModuleSource


def test_the_application_finds_what_is_beside_it(tmp_path: Path) -> None:
    dags, copy = tmp_path / "dags", tmp_path / "copy"
    for path, text in {"common.py": "c", "jobs/load.py": "newer", "jobs/query.sql": "q", "jobs/lib/a.py": "a"}.items():
        (dags / path).parent.mkdir(parents=True, exist_ok=True)
        (dags / path).write_text(text)

    placed = place(ModuleSource("jobs/load.py", "", "pinned\r\n"), dags, copy)

    assert placed == copy / "jobs/load.py"
    assert placed.read_bytes() == b"pinned\r\n"
    assert {str(path.relative_to(copy)) for path in copy.rglob("*")} >= {"common.py", "jobs/query.sql", "jobs/lib"}
    assert (placed.parent / "lib/a.py").read_text() == "a"
    assert (dags / "jobs/load.py").read_text() == "newer"


def test_a_folder_that_is_gone_does_not_matter(tmp_path: Path) -> None:
    placed = place(ModuleSource("jobs/load.py", "", "pinned"), tmp_path / "gone", tmp_path / "copy")

    assert placed.read_text() == "pinned"
