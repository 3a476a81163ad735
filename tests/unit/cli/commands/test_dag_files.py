"""The DAG files that the paths of `dags plan` name."""

from collections.abc import Sequence

import pytest

from tidegate.daemon.cli.commands.dag_files import wanted
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries.files import KnownFile

PRESENT = ("a.py", "team/b.py", "team/new.py", "teams.py")
KNOWN = {
    "a.py": KnownFile("1", frozenset({"lib/common.py"})),
    "team/b.py": KnownFile("1"),
    "team/gone.py": KnownFile("1", frozenset({"team/b.py"})),
}


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        pytest.param([], ["a.py", "team/b.py", "team/gone.py", "team/new.py", "teams.py"], id="all, also files that are gone"),
        pytest.param(["a.py"], ["a.py"], id="a file"),
        pytest.param(["team"], ["team/b.py", "team/gone.py", "team/new.py"], id="a folder, and none of a longer name"),
        pytest.param(["lib/common.py"], ["a.py"], id="a module: the files that read it"),
        pytest.param(["lib"], ["a.py"], id="a folder of modules"),
        pytest.param(["team/b.py", "a.py"], ["a.py", "team/b.py", "team/gone.py"], id="a file that another one reads"),
    ],
)
def test_paths_name_the_files_below_and_those_that_read_these(below: Sequence[str], expected: Sequence[str]) -> None:
    assert wanted(below, PRESENT, KNOWN) == expected


def test_an_archive_names_its_files() -> None:
    assert wanted(["team.zip"], ("a.py", "team.zip", "team.zip/a.py"), {"team.zip/gone.py": KnownFile("1")}) == [
        "team.zip",
        "team.zip/a.py",
        "team.zip/gone.py",
    ]


def test_a_path_without_a_dag_file_is_refused() -> None:
    with pytest.raises(RequestError, match=r"c\.py is no DAG file"):
        wanted(["a.py", "c.py"], PRESENT, KNOWN)
