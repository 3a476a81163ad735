"""Which files a plan applies together."""

from collections.abc import Sequence

import pytest

from tests.shapes import spec
from tidegate.daemon import file_groups
from tidegate.daemon.file_groups import batches
from tidegate.schemas.dag import ParsedFile
from tidegate.schemas.queries.files import StoredDag

STORED = {"d": StoredDag("d", "old.py", is_stale=False, version_id=1, number=1, spec=None, digest="1")}


def file(path: str, *dag_ids: str) -> ParsedFile:
    return ParsedFile(path=path, digest="1", dags=tuple(spec("t", dag_id=dag_id) for dag_id in dag_ids))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([file("a.py", "x"), file("b.py", "y"), file("c.py")], [["a.py", "b.py"], ["c.py"]], id="two at most"),
        pytest.param([file("a.py", "x"), file("b.py", "y"), file("c.py", "x")], [["a.py", "c.py"], ["b.py"]], id="of one DAG"),
        pytest.param(
            [file("new.py", "d"), file("b.py"), file("old.py")], [["new.py", "old.py"], ["b.py"]], id="a DAG that moves"
        ),
        pytest.param(
            [file("a.py", "x"), file("b.py", "y"), file("c.py", "z", "y", "x"), file("d.py", "z")],
            [["a.py", "b.py", "c.py", "d.py"]],
            id="a chain of DAGs, in its order, however long",
        ),
    ],
)
def test_files_of_one_dag_are_applied_together(
    files: Sequence[ParsedFile], expected: Sequence[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_groups, "BATCH", 2)

    assert [[file.path for file in batch] for batch in batches(files, STORED)] == expected
