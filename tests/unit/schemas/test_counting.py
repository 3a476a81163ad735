"""Numbers that are counted up to a bound, for people."""

import pytest

from tidegate.schemas.queries.counting import COUNTED, counted_text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (9_999, "9999"), (10_000, "10000"), (COUNTED, "10,000+"), (30_000, "10,000+")]
)
def test_a_number_is_exact_up_to_the_bound(number: int, text: str) -> None:
    assert counted_text(number) == text
