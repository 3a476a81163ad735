"""Texts of forms as values."""

import pytest

from tidegate.daemon.web.fields import Fields, end_text, json_object, moments
from tidegate.schemas.time_range import parse_end, parse_time


@pytest.mark.parametrize("text", ["2013-01-31", "2013-01-31T06:00:00+00:00"])
def test_an_end_is_shown_as_it_is_written(text: str) -> None:
    assert end_text(parse_end(text)) == text


def test_times_of_a_list_are_in_order_and_each_is_there_once() -> None:
    assert moments("2013-01-02, 2013-01-01\n2013-01-02") == (parse_time("2013-01-01"), parse_time("2013-01-02"))


def test_each_problem_stands_with_its_field() -> None:
    fields = Fields({"a": "soon", "b": "1800-01-01", "c": "[1]", "d": " 2013-01-01 ", "e": "", "f": "[" * 100_000})

    values = [fields.value(name, parse_time) for name in ("a", "b", "d", "e", "missing")]
    objects = [fields.value(name, json_object) for name in ("c", "f")]

    assert values == [None, None, parse_time("2013-01-01"), None, None]
    assert objects == [None, None]
    assert fields.problems.keys() == {"a", "b", "c", "f"}
    assert fields.problems["a"] == "write a date or a time like 2013-01-31, 2013-01-31T06:00 or 2013-01-31T06:00+01:00"
    assert fields.problems["b"].startswith("the time 1800-01-01T00:00:00+00:00 is out of range")
