"""What a storm takes for an attempt that has too many applications."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.storms.cluster import Entry
from tests.storms.invariants.attempts import TAKEN_OVER_S, doubled

AT = datetime(2026, 1, 1, tzinfo=UTC)


def accepted(took_s: float) -> Entry:
    """So long after it was begun."""
    return Entry(what="accepted", at=AT, stamp="1", begun_at=AT - timedelta(seconds=took_s))


@pytest.mark.parametrize(
    ("took_s", "is_doubled"),
    [
        pytest.param([0.01], False, id="one"),
        pytest.param([TAKEN_OVER_S], False, id="one that stood still"),
        pytest.param([0.01, 0.01], True, id="two"),
        pytest.param([0.01, TAKEN_OVER_S - 0.01], True, id="two, one of which was slow, but not so slow"),
        pytest.param([0.01, TAKEN_OVER_S], False, id="another one that stood still"),
        pytest.param([TAKEN_OVER_S, TAKEN_OVER_S], False, id="two that stood still"),
        pytest.param([0.01, TAKEN_OVER_S, 0.01], True, id="three, one of which stood still"),
    ],
)
def test_only_requests_of_daemons_that_were_awake_count(took_s: list[float], is_doubled: bool) -> None:
    assert doubled([accepted(each) for each in took_s]) == is_doubled
