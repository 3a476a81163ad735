"""The figures of shape that the product keeps, and the words that its prose does without."""

import ast
from pathlib import Path

from tests.structure.imports import ROOT, parsed
from tests.structure.picture import CONTRIBUTING, written
from tests.structure.prose import occurrences, vague_words
from tests.structure.repeats import repeats
from tests.structure.sizes import measure

VAGUE_WORDS = 1
"""How many vague words docstrings and comments hold at most, tests included. The number only falls."""


def test_functions_and_files_are_short_and_typed() -> None:
    sizes = measure()

    assert sizes.function_median <= 6
    assert sizes.function_p95 <= 17
    assert sizes.longest_file_lines <= 350, sizes.longest_file
    assert sizes.untyped == ()
    assert sizes.ignored == ()


def test_nothing_is_written_twice() -> None:
    assert repeats() == []


def test_prose_names_its_subject() -> None:
    assert sum(vague_words().values()) <= VAGUE_WORDS, [f"{path.relative_to(ROOT)}: {word}" for path, word in occurrences()]


def test_of_the_schemas_only_queries_wait() -> None:
    modules = [path for path in sorted((ROOT / "schemas").rglob("*.py")) if path.parent.name != "queries"]

    assert [str(path.relative_to(ROOT)) for path in modules if _awaits(path)] == []


def _awaits(path: Path) -> bool:
    return any(isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith) for node in ast.walk(parsed(path)))


def test_the_picture_in_contributing_is_the_code() -> None:
    document = CONTRIBUTING.read_text()

    assert written(document) == document, "run `make picture`"
