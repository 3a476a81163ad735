"""The tables of cases in the docstrings of tests name tests that exist."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
TABLES = ("integration/engine/test_backfills.py", "acceptance/test_backfills.py")


@pytest.fixture(scope="module")
def defined() -> set[str]:
    return {
        name for file in TESTS.rglob("test_*.py") for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.M)
    }


@pytest.mark.parametrize("path", TABLES)
def test_each_test_of_a_table_exists(path: str, defined: set[str]) -> None:
    docstring = (TESTS / path).read_text().split('"""')[1]
    rows = [line for line in docstring.splitlines() if line.startswith("| ")][1:]

    named = {row: re.findall(r"\btest_\w+", row) for row in rows}
    empty = [row for row, names in named.items() if not names]
    unknown = {name for names in named.values() for name in names} - defined

    assert empty == [], f"{path}: name the tests of these cases: {empty}"
    assert unknown == set(), f"{path}: no file of tests/ defines {unknown}"
