"""The calendar of a backfill."""

from datetime import date

import pytest

from tidegate.daemon.web.heat_map import LEFT, PITCH, TOP, heat_map, legend, square

FIRST, LAST = date(2012, 12, 30), date(2014, 1, 2)


def test_a_year_has_its_days_of_the_range_in_columns_of_weeks() -> None:
    shown = heat_map(2013, FIRST, LAST, {})

    assert (len(shown.days), shown.older, shown.newer) == (365, 2012, 2014)
    places = [(day.square.x - LEFT, day.square.y - TOP) for day in shown.days[:7]]
    assert places == [(0.5, row * PITCH + 0.5) for row in range(1, 7)] + [(PITCH + 0.5, 0.5)]
    assert [name for _, name in shown.months][:3] == ["Jan", "Feb", "Mar"]
    assert shown.width == LEFT + 52 * PITCH + 2 * PITCH


def test_the_first_and_the_last_year_are_cut() -> None:
    assert [day.day.day for day in heat_map(2012, FIRST, LAST, {}).days] == [30, 31]
    assert [day.day.day for day in heat_map(2014, FIRST, LAST, {}).days] == [1, 2]
    assert (heat_map(2012, FIRST, LAST, {}).older, heat_map(2014, FIRST, LAST, {}).newer) == (None, None)
    assert heat_map(2020, FIRST, LAST, {}).days == []


@pytest.mark.parametrize(
    ("counts", "state", "text"),
    [
        ({}, "", "no date is planned"),
        ({"success": 24}, "success", "24 success"),
        ({"success": 22, "failed": 1, "open": 1}, "failed", "1 failed, 1 open, 22 success"),
        ({"skipped": 1, "cancelled": 1}, "cancelled", "1 cancelled, 1 skipped"),
    ],
)
def test_a_day_has_the_worst_state_of_its_dates(counts: dict[str, int], state: str, text: str) -> None:
    day = heat_map(2013, FIRST, LAST, {date(2013, 1, 1): counts}).days[0]

    assert (day.state, day.text) == (state, text)


@pytest.mark.parametrize(
    ("state", "colour", "mark"), [("failed", "bad", "✕"), ("success", "ok", ""), ("running", "run", ""), ("", "none", "")]
)
def test_a_square_of_a_failure_has_a_mark(state: str, colour: str, mark: str) -> None:
    found = square(state)

    assert (found.colour, found.mark, found.mark_x) == (colour, mark, 6.0)


def test_a_legend_has_the_squares_of_the_days_with_words() -> None:
    assert legend("retry", skipped="skipped or cancelled") == (
        ("runs again", square("retry")),
        ("skipped or cancelled", square("skipped")),
    )


def test_everything_in_a_calendar_is_within_it() -> None:
    shown = heat_map(2012, date(2012, 1, 1), date(2012, 12, 31), {})

    assert max(day.square.x + day.square.side for day in shown.days) < shown.width
    assert max(day.square.y + day.square.side for day in shown.days) < shown.height
    assert shown.weekdays == ((26, "Mon"), (54, "Wed"), (82, "Fri"))


def test_names_of_months_are_not_written_over_each_other() -> None:
    months = heat_map(2013, date(2013, 1, 31), date(2013, 3, 1), {}).months

    assert [name for _, name in months] == ["Jan", "Mar"]
