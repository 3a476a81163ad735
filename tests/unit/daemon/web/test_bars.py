"""The bars beside runs and tasks."""

import pytest

from tidegate.daemon.web.bars import COLUMN, ROW, duration_bar, span_bar


@pytest.mark.parametrize(("took_s", "y", "height"), [(100, 0, 34), (200, 0, 34), (50, 17, 17), (0, 31, 3), (10, 30.6, 3.4)])
def test_a_bar_is_as_high_as_its_run_is_long(took_s: float, y: float, height: float) -> None:
    found = duration_bar(took_s, 100)

    assert (found.of, found.y, found.height) == (COLUMN, y, height)


@pytest.mark.parametrize(
    ("began_s", "took_s", "x", "width"),
    [
        pytest.param(0, 100, 0, 200, id="the whole run"),
        pytest.param(25, 50, 50, 100, id="a part"),
        pytest.param(50, 100, 100, 100, id="longer than the run"),
        pytest.param(150, 10, 198, 2, id="after the run"),
        pytest.param(10, 0, 20, 2, id="no time"),
    ],
)
def test_a_span_is_within_its_run(began_s: float, took_s: float, x: float, width: float) -> None:
    found = span_bar(began_s, took_s, 100)

    assert (found.of, found.x, found.width) == (ROW, x, width)
