"""The figures of shape that the product keeps, and the words that its prose does without."""

import ast
import tomllib
from pathlib import Path

import pytest

from tests.structure.imports import ROOT, nodes
from tests.structure.names import is_unclear, unclear_names
from tests.structure.picture import CONTRIBUTING, written
from tests.structure.prose import occurrences
from tests.structure.repeats import repeats
from tests.structure.sizes import Sizes, hides, measure

VAGUE_WORDS = 0
"""How many vague words docstrings, comments, texts of the product and pages hold at most. The number only falls."""


LONGEST_FILE = 500


@pytest.fixture(scope="module")
def sizes() -> Sizes:
    return measure()


def test_functions_are_short(sizes: Sizes) -> None:
    longest = list(sizes.functions.items())[:10]

    assert sizes.function_median <= 6, f"half of all functions have at most 6 lines: split the longest ones, {longest}"
    assert sizes.function_p95 <= 17, f"95 of 100 functions have at most 17 lines: split the longest ones, {longest}"


def test_files_are_short(sizes: Sizes) -> None:
    long = {path: lines for path, lines in sizes.files.items() if lines > LONGEST_FILE}

    assert long == {}, f"a file has at most {LONGEST_FILE} lines: move one of the subjects of {long} to a file of its own"


def test_lines_of_sql_are_as_long_as_those_of_python() -> None:
    limit = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["line-length"]
    long = [
        f"{path.name}:{number}"
        for path in sorted((ROOT / "schemas/queries").glob("*.sql"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > limit
    ]

    assert long == [], f"break the lines that have more than {limit} characters: {long}"


def test_everything_is_typed(sizes: Sizes) -> None:
    assert sizes.untyped == (), f"give each parameter and the result a type: {sizes.untyped}"
    assert sizes.ignored == (), f"mend what the checks show, without a remark that hides it: {sizes.ignored}"


@pytest.mark.parametrize(
    "remark",
    [
        "type:ignore",
        "type: ignore[misc]",
        "mypy: ignore-errors",
        "pragma: no cover",
        "pragma:no branch",
        "ruff: noqa: DTZ005",
        "noqa: DTZ005, TID251",
    ],
)
def test_a_remark_that_hides_is_found(remark: str) -> None:
    assert hides(f"    x = 1  # {remark}")


def test_a_remark_that_explains_hides_nothing() -> None:
    assert not hides("x = 1  # noqa: S102 - types are ignored by mypy: see the page")


def test_names_say_what_a_thing_does() -> None:
    assert (unclear := list(unclear_names())) == [], f"name the file, class or function after its subject: {unclear}"


@pytest.mark.parametrize("name", ["utils", "run_helpers", "DagManager", "ManagerOfRuns", "_helper"])
def test_an_unclear_name_is_found(name: str) -> None:
    assert is_unclear(name)


@pytest.mark.parametrize("name", ["AsyncContextManager", "contextmanager", "utility"])
def test_a_name_of_python_is_clear(name: str) -> None:
    assert not is_unclear(name)


def test_nothing_is_written_twice() -> None:
    assert (found := repeats()) == [], f"make a function of the lines that both places have: {found}"


def test_prose_names_its_subject() -> None:
    found = [str(occurrence) for occurrence in occurrences()]

    assert len(found) <= VAGUE_WORDS, f"name the component that acts: {found}"


def test_of_the_schemas_only_queries_wait() -> None:
    modules = [path for path in sorted((ROOT / "schemas").rglob("*.py")) if path.parent.name != "queries"]

    waiting = [str(path.relative_to(ROOT)) for path in modules if _awaits(path)]
    assert waiting == [], f"move the statement to schemas/queries/: {waiting}"


def _awaits(path: Path) -> bool:
    return any(isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith) for node in nodes(path))


def test_the_picture_in_contributing_is_the_code() -> None:
    document = CONTRIBUTING.read_text()

    assert written(document) == document, "run `make picture`"


def test_a_document_without_a_place_for_the_picture_is_named() -> None:
    with pytest.raises(ValueError, match="has no place for the picture: put a line <!-- picture: begin"):
        written("# Contributing\n")
