"""The chart of durations."""

from datetime import UTC, datetime, timedelta

from tidegate.daemon.web.duration_chart import HEIGHT, LEFT, PITCH, TOP, duration_chart
from tidegate.schemas.queries.grid import GridRun, Usual

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def run(number: int, minutes: float | None, *, ended: bool = True) -> GridRun:
    """A run that took so long; without minutes it has not started."""
    start = None if minutes is None else NOW - timedelta(minutes=minutes)
    return GridRun(number, f"r{number}", "scheduled", "success", start, NOW if ended and start else None, NOW)


def test_bars_are_as_high_as_their_runs_are_long() -> None:
    chart = duration_chart([run(1, 10), run(2, None), run(3, 5, ended=False)], None, NOW)

    assert [(bar.run.id, bar.x, bar.y, bar.height) for bar in chart.bars] == [
        (1, LEFT + 1, TOP, HEIGHT),
        (3, LEFT + 1 + 2 * PITCH, TOP + HEIGHT / 2, HEIGHT / 2),
    ]
    assert (chart.lines[-1].y, chart.lines[-1].text) == (TOP, "10m00s")
    assert (chart.right, chart.usual_width, chart.usual_height) == (LEFT + 3 * PITCH, 3 * PITCH, 0.0)


def test_the_usual_range_is_a_band_and_part_of_the_scale() -> None:
    chart = duration_chart([run(1, 5)], Usual(300.0, 450.0, 600.0, 9), NOW)

    assert (chart.usual_y, chart.usual_height) == (TOP, HEIGHT / 2)


def test_a_run_that_takes_no_time_can_be_seen() -> None:
    assert duration_chart([run(1, 60), run(2, 0)], None, NOW).bars[1].height == 2.0


def test_without_runs_there_is_a_scale() -> None:
    assert duration_chart([], None, NOW).bars == []


def test_a_range_between_equal_durations_is_one_duration() -> None:
    assert (Usual(3.91, 3.91, 3.91, 1).text, Usual(3.9, 5, 12, 2).text) == ("3.9s", "3.9s to 12s")
