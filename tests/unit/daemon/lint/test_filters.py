"""Notes about filters that can be parsed, and that seem to mean something else."""

import pytest

from tidegate import Dag, Dataset, DatasetPattern
from tidegate.daemon.lint.filters import doubtful_filters

PREFIXED = "has fields of the extra behind 'extra.': leave that out; a field that events do call so is written `extra`"


def compares(name: str) -> str:
    return f"compares two fields, of which one is called {name}: write '{name}' for the text, or `{name}` for the field"


def notes(where: str) -> list[str]:
    spec = Dag("d", schedule=Dataset("lake://a", where=where) | DatasetPattern("lake://b/*", where=where)).spec()
    found = list(doubtful_filters(spec))
    assert {mistake.text for mistake in found} <= {where}
    return [mistake.reason.removeprefix(f"filter {where!r} ") for mistake in found]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("extra.rows > 3", [PREFIXED]),
        ("rows > 3 and not (3 < extra.rows or extra.day == null)", [PREFIXED]),
        ("extra.origin == extra.target", [PREFIXED]),
        ("origin == Europe", [compares("Europe")]),
        ("source.kind != test or rows > 3", [compares("test")]),
        ("extra.origin == Europe", [PREFIXED, compares("Europe")]),
    ],
)
def test_a_name_that_seems_to_be_no_field_is_noted_once(where: str, expected: list[str]) -> None:
    assert notes(where) == expected


@pytest.mark.parametrize(
    "where",
    [
        "rows > 3",
        "origin == 'Europe'",
        "rows > expected",
        "origin == `Europe`",
        "country in countries or country in ['CH']",
        "origin == source.kind",
        "`extra`.rows > 3",
        "extra == null",
        "is_full",
    ],
)
def test_a_filter_that_reads_fields_is_not_noted(where: str) -> None:
    assert notes(where) == []
