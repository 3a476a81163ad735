"""The evaluation by which simulations and storms judge conditions."""

from collections.abc import Collection

import pytest

from tests.conditions import is_met, names_all
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, DatasetRef, NOf, PatternRef

A, B, C = (DatasetRef(f"s://{name}") for name in "abc")


@pytest.mark.parametrize(
    ("condition", "uris", "met"),
    [
        (None, ["s://a"], False),
        (A, ["s://a"], True),
        (A, ["s://b"], False),
        (AllOf((A, B)), ["s://a"], False),
        (AllOf((A, B)), ["s://a", "s://b"], True),
        (AnyOf((A, B)), ["s://b"], True),
        (AnyOf((A, B)), [], False),
        (NOf(2, (A, B, C)), ["s://c"], False),
        (NOf(2, (A, B, C)), ["s://c", "s://a"], True),
        (AllOf((A, AnyOf((B, C)))), ["s://a", "s://c"], True),
        (PatternRef("s://*/x"), ["s://a/x"], True),
        (PatternRef("s://*/x"), ["s://a/b/x"], False),
        (PatternRef("s://**/x"), ["s://a/b/x"], True),
    ],
)
def test_a_condition_is_met_by_what_it_says(condition: Condition | None, uris: Collection[str], met: bool) -> None:
    assert is_met(condition, uris) is met


def test_a_condition_names_its_datasets_and_no_other() -> None:
    assert names_all(AllOf((A, PatternRef("t://*"))), ["s://a", "t://x"])
    assert not names_all(AllOf((A, B)), ["s://a", "s://c"])
