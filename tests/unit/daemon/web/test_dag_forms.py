"""The fields of params, and the conf that they make."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import UNSET

from tidegate.daemon.gateway.problem import InvalidError
from tidegate.daemon.web.pages.dag_forms import conf_of, moment_of, param_field
from tidegate.schemas.params import ParamSpec


@pytest.mark.parametrize(
    ("schema", "default", "kind", "value", "options"),
    [
        ({"type": "string"}, "a<b", "text", "a<b", []),
        ({"type": "string", "format": "date"}, "2013-01-31", "date", "2013-01-31", []),
        ({"type": "string", "format": "email"}, "a@b", "text", "a@b", []),
        ({"type": "integer"}, 3, "number", "3", []),
        ({"type": "number"}, 0.5, "number", "0.5", []),
        ({"type": "string", "enum": ["a", "b"]}, "b", "select", "b", ["a", "b"]),
        ({"type": "string", "enum": ["a", "b"]}, UNSET, "select", "", ["", "a", "b"]),
        ({"type": "boolean"}, True, "checkbox", "true", []),
        ({"enum": [1, 2]}, 2, "select", "2", ["1", "2"]),
        ({"type": "array"}, [1, "a"], "textarea", '[1,"a"]', []),
        ({"type": ["integer", "null"]}, None, "textarea", "null", []),
        ({}, None, "textarea", "null", []),
        ({"type": "string"}, UNSET, "text", "", []),
    ],
)
def test_a_param_has_a_field_of_its_type(schema: dict[str, Any], default: Any, kind: str, value: str, options: list[str]) -> None:
    field = param_field("p", ParamSpec(default=default, schema=schema))

    assert (field.name, field.kind, field.value, list(field.options)) == ("param.p", kind, value, options)
    assert field.is_required is (default is UNSET)


@pytest.mark.parametrize(
    ("schema", "default", "hint"),
    [
        ({"type": "string"}, "a", 'empty: the default, "a"'),
        ({"type": "string", "description": "a day"}, "a", 'a day; empty: the default, "a"'),
        ({"type": "array"}, [1], "JSON; empty: the default, [1]"),
        ({"type": "integer", "minimum": 1, "maximum": 9}, 3, "1 or more; 9 or less; empty: the default, 3"),
        ({"type": "string", "pattern": "^a"}, UNSET, "matches ^a"),
        ({"type": "string"}, UNSET, ""),
        ({"type": "string", "enum": ["a"]}, "a", ""),
        ({"type": "boolean", "description": "all of it"}, True, "all of it"),
    ],
)
def test_a_field_says_what_it_takes_and_its_default(schema: dict[str, Any], default: Any, hint: str) -> None:
    assert param_field("p", ParamSpec(default=default, schema=schema)).hint == hint


@pytest.mark.parametrize(
    ("schema", "bounds"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9}, {"min": "1", "max": "9", "step": "1"}),
        ({"type": "number", "minimum": 0.5}, {"min": "0.5", "step": "any"}),
        ({"type": "integer", "multipleOf": 5}, {"step": "5"}),
        ({"type": "string", "minLength": 2, "maxLength": 4}, {"minlength": "2", "maxlength": "4"}),
        ({"type": "boolean"}, {}),
        ({"type": "integer", "enum": [1], "minimum": 1}, {}),
    ],
)
def test_an_input_has_the_bounds_that_browsers_know(schema: dict[str, Any], bounds: dict[str, str]) -> None:
    assert param_field("p", ParamSpec(schema=schema)).bounds == bounds


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ({"type": "string"}, "3", "3"),
        ({"type": "integer"}, "3", 3),
        ({}, '{"a": [1]}', {"a": [1]}),
        ({"type": "boolean"}, "false", False),
    ],
)
def test_a_field_is_read_by_its_type(schema: dict[str, Any], text: str, expected: Any) -> None:
    assert conf_of({"p": ParamSpec(schema=schema)}, {"p": text}) == {"p": expected}


def test_a_field_of_a_param_that_is_gone_is_no_default() -> None:
    with pytest.raises(InvalidError, match=r"^there is no param 'contry'; did you mean country\?; open the form again$"):
        conf_of({"country": ParamSpec(default="CH", schema={"type": "string"})}, {"contry": "DE"})


def test_a_field_that_is_no_json_is_named() -> None:
    with pytest.raises(InvalidError, match="param p: write JSON"):
        conf_of({"p": ParamSpec(schema={"type": "integer"})}, {"p": "three"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2013-01-31", datetime(2013, 1, 31, tzinfo=UTC)),
        ("2013-01-31T06:00+01:00", datetime(2013, 1, 31, 5, tzinfo=UTC)),
    ],
)
def test_a_time_without_an_offset_is_utc(text: str, expected: datetime) -> None:
    assert moment_of("at", {"at": text}) == expected
    assert moment_of("at", {}) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tomorrow", "at: write a date or a time like"),
        ("9999-12-31T23:59-23:00", "at: the time .* is out of range; write a time from"),
        ("0001-01-01", "at: the time .* is out of range; write a time from"),
    ],
)
def test_a_time_that_cannot_be_read_is_named(text: str, says: str) -> None:
    with pytest.raises(InvalidError, match=says):
        moment_of("at", {"at": text})
