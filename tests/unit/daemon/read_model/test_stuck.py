"""When a wait is longer than usual."""

from datetime import UTC, datetime, timedelta

import pytest

from tidegate.daemon.read_model.stuck import waits_long
from tidegate.schemas.queries.grid import Usual

NOW = datetime(2013, 1, 1, tzinfo=UTC)
SHORT, LONG = Usual(0.5, 1.0, 2.0, 9), Usual(60.0, 300.0, 3600.0, 9)


@pytest.mark.parametrize(
    ("waited_s", "usual", "is_long"),
    [(60, SHORT, False), (61, SHORT, True), (3600, LONG, False), (3601, LONG, True), (600, None, False), (601, None, True)],
)
def test_a_wait_is_long_beside_whole_runs(waited_s: int, usual: Usual | None, is_long: bool) -> None:
    assert waits_long(NOW - timedelta(seconds=waited_s), usual, NOW) == is_long
