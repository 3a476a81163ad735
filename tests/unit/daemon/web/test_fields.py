"""Texts of forms as values."""

from datetime import UTC, datetime

import pytest

from tidegate.daemon.web.fields import Fields, end, end_text, json_object, moment, moments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2013-01-31", datetime(2013, 1, 31, tzinfo=UTC)),
        ("2013-01-31T06:00", datetime(2013, 1, 31, 6, tzinfo=UTC)),
        ("2013-01-31T06:00+01:00", datetime(2013, 1, 31, 5, tzinfo=UTC)),
    ],
)
def test_a_time_without_an_offset_is_in_utc(text: str, value: datetime) -> None:
    assert moment(text) == value


def test_the_end_of_a_day_is_its_last_moment_and_that_of_a_time_is_the_time() -> None:
    assert end("2013-01-31") == datetime(2013, 1, 31, 23, 59, 59, 999_999, UTC)
    assert end("2013-01-31T06:00") == datetime(2013, 1, 31, 6, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2013-01-31", "2013-01-31T06:00:00+00:00"])
def test_an_end_is_shown_as_it_is_written(text: str) -> None:
    assert end_text(end(text)) == text


def test_times_of_a_list_are_in_order_and_each_is_there_once() -> None:
    assert moments("2013-01-02, 2013-01-01\n2013-01-02") == (moment("2013-01-01"), moment("2013-01-02"))


def test_each_problem_stands_with_its_field() -> None:
    fields = Fields({"a": "soon", "b": "1800-01-01", "c": "[1]", "d": " 2013-01-01 ", "e": "", "f": "[" * 100_000})

    values = [fields.value(name, moment) for name in ("a", "b", "d", "e", "missing")]
    objects = [fields.value(name, json_object) for name in ("c", "f")]

    assert values == [None, None, moment("2013-01-01"), None, None]
    assert objects == [None, None]
    assert fields.problems.keys() == {"a", "b", "c", "f"}
    assert fields.problems["a"] == "write a date or a time like 2013-01-31 or 2013-01-31T06:00"
    assert fields.problems["b"].startswith("the time 1800-01-01T00:00:00+00:00 is out of range")
