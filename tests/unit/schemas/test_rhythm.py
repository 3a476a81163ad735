"""When an event of a dataset is late."""

from datetime import UTC, datetime, timedelta

import pytest

from tidegate.schemas.queries.dataset_pages import Rhythm

NOW = datetime(2013, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ago_s", "interval_s", "longest_s", "is_late"),
    [
        (60, 16.0, 20.0, False),
        (61, 16.0, 20.0, True),
        (7200, 3600.0, 3600.0, False),
        (7201, 3600.0, 3600.0, True),
        (7201, 3600.0, 9000.0, False),
        (9001, 3600.0, 9000.0, True),
        (10**9, None, None, False),
    ],
)
def test_an_event_is_late_beside_the_ones_before(
    ago_s: int, interval_s: float | None, longest_s: float | None, is_late: bool
) -> None:
    assert Rhythm(NOW - timedelta(seconds=ago_s), interval_s, longest_s).is_late(NOW) == is_late


def test_a_dataset_without_an_event_is_not_late() -> None:
    assert not Rhythm().is_late(NOW)
