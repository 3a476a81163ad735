"""The limits of a backfill as users write them, and the dates of two backfills."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.shapes import NOW
from tidegate.schemas.backfill import RANGES, BackfillView, Limits, default_active_runs, limits_version, overlaps, read_limit

VIEW = BackfillView(dag_id="d", start_date=NOW, end_date=NOW, id=1, version_id=1, horizon=NOW)


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


@pytest.mark.parametrize(
    ("facts", "is_same"),
    [
        ({}, True),
        ({"dates": 7, "succeeded": 3, "start_date": NOW - timedelta(days=1)}, True),
        ({"max_active_runs": 3}, False),
        ({"share": 0.5}, False),
        ({"pool": "few"}, False),
        ({"max_failed_runs": 1}, False),
        ({"end_date": NOW + timedelta(days=1)}, False),
    ],
    ids=str,
)
def test_the_version_of_limits_changes_with_them_and_with_the_end(facts: dict[str, Any], *, is_same: bool) -> None:
    version = limits_version(VIEW)

    assert re.fullmatch("[0-9a-f]{16}", version)
    assert (limits_version(msgspec.structs.replace(VIEW, **facts)) == version) is is_same


@pytest.mark.parametrize(("of_dag", "runs"), [(1, 1), (9, 9), (16, 10)])
def test_a_backfill_has_as_many_runs_as_its_dag_and_at_most_ten(of_dag: int, runs: int) -> None:
    assert default_active_runs(of_dag) == runs


def days(*numbers: int) -> tuple[datetime, ...]:
    return tuple(NOW + timedelta(days=number) for number in numbers)


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ((1, 5), (5, 9), True),
        ((5, 9), (1, 5), True),
        ((1, 5), (6, 9), False),
        ((6, 9), (1, 5), False),
        ((1, 5), [5, 9], True),
        ((5, 9), [1, 5], True),
        ((1, 5), [0, 6], False),
        ([5, 9], (1, 5), True),
        ([1, 5], (5, 9), True),
        ([0, 6], (1, 5), False),
        ([1, 5], [5, 9], True),
        ([1, 5], [2, 9], False),
    ],
    ids=str,
)
def test_two_backfills_overlap_where_they_have_a_date_in_common(
    one: Sequence[int], other: Sequence[int], *, overlap: bool
) -> None:
    """A pair is a range, a list has single dates."""
    first, last = days(*one)
    dates = days(*one) if isinstance(one, list) else None
    view = msgspec.structs.replace(VIEW, start_date=first, end_date=last, logical_dates=dates)
    start, end = days(*other)

    assert overlaps(view, start, end, [start, end] if isinstance(other, list) else None) is overlap
