"""The fewest inputs that a condition lacks."""

import pytest

from tests.shapes import A, B, C
from tidegate.handlers.explain.dag import fewest
from tidegate.schemas.conditions.condition import AllOf, AnyOf, Condition, Leaf, NOf, PatternRef

PATTERN = PatternRef("s://x/*")


@pytest.mark.parametrize(
    ("condition", "there", "expected"),
    [
        (A, (), (A,)),
        (A, (A,), ()),
        (AllOf((A, B, A)), (), (A, B)),
        (AnyOf((AllOf((A, B)), C)), (), (C,)),
        (AnyOf((AllOf((A, B)), AllOf((B, C, PATTERN)))), (B, C), (A,)),
        (NOf(2, (A, AllOf((B, C)), PATTERN)), (), (A, PATTERN)),
        (NOf(2, (A, B, C)), (C,), (A,)),
    ],
)
def test_the_alternative_that_lacks_fewest_inputs_is_chosen(
    condition: Condition, there: tuple[Leaf, ...], expected: tuple[Leaf, ...]
) -> None:
    assert fewest(condition, frozenset(there)) == expected
