"""The DAG files that the paths of `dags plan` name."""

from collections.abc import Sequence

import pytest

from tidegate.daemon.cli.commands.dag_files import wanted
from tidegate.daemon.dagfiles.scan import Listing
from tidegate.schemas.error import RequestError
from tidegate.schemas.queries.files import KnownFile


def listing(*paths: str, unreadable: tuple[str, ...] = ()) -> Listing:
    return Listing(dict.fromkeys(paths, (0, 0, 0)), unreadable)


PRESENT = listing("a.py", "team/b.py", "team/new.py", "teams.py")
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


@pytest.mark.parametrize("path", ["team.zip", "team.zip/lib/x.py"])
def test_an_archive_and_a_module_of_it_name_its_files(path: str) -> None:
    assert wanted([path], listing("a.py", "team.zip", "team.zip/a.py"), {"team.zip/gone.py": KnownFile("1")}) == [
        "team.zip",
        "team.zip/a.py",
        "team.zip/gone.py",
    ]
    assert wanted(["team.zip/a.py"], listing("team.zip", "team.zip/a.py", "team.zip/b.py"), {}) == ["team.zip/a.py"]


def test_a_path_without_a_dag_file_is_refused() -> None:
    with pytest.raises(RequestError, match=r"c\.py is no DAG file"):
        wanted(["a.py", "c.py"], PRESENT, KNOWN)


@pytest.mark.parametrize(
    ("below", "unreadable", "named"),
    [
        pytest.param([], ("team", "x"), "team", id="a known file of it, which would count as deleted"),
        pytest.param([], (".",), ".", id="the DAG folder itself"),
        pytest.param(["team/new.py"], ("team",), "team", id="a file of it"),
        pytest.param(["new/a.py"], ("new", "x"), "new", id="a file of it that may be new"),
        pytest.param(["new"], ("new/deep", "x"), "new/deep", id="a folder above it without other files"),
        pytest.param(["lib"], ("lib/a", "lib/b"), "lib/a, lib/b", id="two of them"),
    ],
)
def test_a_folder_that_cannot_be_read_is_no_absence(below: Sequence[str], unreadable: tuple[str, ...], named: str) -> None:
    known = {"team/b.py": KnownFile("1")}

    with pytest.raises(RequestError) as refused:
        wanted(below, listing("a.py", unreadable=unreadable), known)

    assert str(refused.value) == f"these folders of the DAG folder cannot be read: {named}; mend their permissions"


def test_a_folder_that_cannot_be_read_is_of_no_concern_to_files_elsewhere() -> None:
    present = listing("a.py", "team/b.py", unreadable=("team/deep", "x"))

    assert wanted(["a.py"], present, {"team/deep/b.py": KnownFile("1")}) == ["a.py"]
    assert wanted([], present, {}) == ["a.py", "team/b.py"]


@pytest.mark.parametrize(
    ("paths", "closed"),
    [
        ([], ["team/deep", "x", "."]),
        (["team"], ["team/deep", "."]),
        (["team/deep"], ["team/deep", "."]),
        (["team/deep/b.py", "x.py"], ["team/deep", "."]),
        (["tea", "team/deeper", "xx"], ["."]),
    ],
)
def test_a_folder_is_closed_to_the_paths_above_and_below_it(paths: Sequence[str], closed: Sequence[str]) -> None:
    assert listing(unreadable=("team/deep", "x", ".")).closed(paths) == closed
