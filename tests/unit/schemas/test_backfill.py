"""The limits of a backfill as users write them."""

import re

import pytest

from tidegate.schemas.backfill import RANGES, Limits, read_limit


def test_each_limit_has_its_values_in_words() -> None:
    assert RANGES.keys() == set(Limits.__struct_fields__)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("max_active_tasks", "null", "write a whole number from 1 to"),
        ("max_active_runs", "", "write a whole number from 1 to"),
        ("share", "0", "write a percentage above 0 and up to 100"),
        ("share", "nan", "write a percentage above 0 and up to 100"),
        ("priority", "high", "write a whole number from -"),
    ],
)
def test_a_limit_that_cannot_be_says_what_to_write(name: str, text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        read_limit(name, text)


def test_a_share_is_written_in_percent() -> None:
    assert (read_limit("share", "50"), read_limit("max_active_runs", "7"), read_limit("pool", "few")) == (0.5, 7, "few")
