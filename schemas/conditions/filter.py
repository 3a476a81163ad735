"""Filters on the `extra` of an event: a small language of comparisons, evaluated on its syntax tree. No code is executed.

    rows > 0 and country in ['CH', 'DE'] and not (source.kind == "test" or tags[0] == null)

A field is a name, followed by `.name` and `[index]` for nested values; a name that is not a word is written in backquotes.
`==`, `!=`, `<`, `<=`, `>`, `>=` compare fields with numbers, texts, `true`, `false`, `null` and other fields. `in` tests
membership in a list, either written in the filter or a field of the event. A field alone tests whether it is `true`.

Three-valued logic, as in SQL: a comparison with a missing field, or with a value of another type, is unknown, and so is `not` of
it; `and` and `or` are known where one side decides. An event passes if the whole filter is true. Evaluation never raises.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from tidegate.schemas.conditions.filter_syntax import Comparison, Fixed, Joined, Node, Not, Operand, kind_of, parse

SHOWN = 80
"""Characters of a name in a reason."""

Answer = bool | None
"""None is unknown."""


class _Missing:
    """The value of a field that the extra lacks."""


_MISSING = _Missing()

_KINDS = {
    "truth": "a truth value",
    "number": "a number",
    "text": "a text",
    "list": "a list",
    "tuple": "a list",
    "dict": "an object",
    "NoneType": "null",
}

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def passes(where: str, extra: Mapping[str, Any]) -> bool:
    """Whether an event with this extra passes a filter. Raises FilterError for a text that is not a filter."""
    return _answer(parse(where), extra) is True


def undecided(where: str, extra: Mapping[str, Any]) -> str:
    """Why a filter is neither true nor false for this extra: its first unknown comparison. Empty if the filter is known."""
    return next(_unknowns(parse(where), extra), "")


def _unknowns(node: Node, extra: Mapping[str, Any]) -> Iterator[str]:
    if _answer(node, extra) is not None:
        return
    match node:
        case Not(of):
            yield from _unknowns(of, extra)
        case Joined(_, of):
            yield from (reason for operand in of for reason in _unknowns(operand, extra))
        case Comparison(operator, left, right):
            yield _unknown(operator, left, right, extra)


def _unknown(operator: str, left: Operand, right: Operand, extra: Mapping[str, Any]) -> str:
    """Names fields and kinds of values, not values, so that few reasons stand for many events."""
    missing = [_name(operand) for operand in (left, right) if _value(operand, extra) is _MISSING]
    if missing:
        return f"its extra has no {missing[0]}"
    values = [_value(operand, extra) for operand in (left, right)]
    of_left, of_right = (_KINDS[kind_of(value)] for value in values)
    if operator != "in":
        return f"{_name(left)} is {of_left} and {_name(right)} {of_right}"
    if isinstance(values[1], list | tuple):
        return f"{_name(left)} is {of_left}, and nothing in {_name(right)} is"
    return f"{_name(right)} is {of_right}, not a list"


def _name(operand: Operand) -> str:
    if isinstance(operand, Fixed):
        return _shown(msgspec.json.encode(operand.value).decode())
    steps = (f".{step}" if isinstance(step, str) else f"[{step}]" for step in operand.path)
    return f"`{_shown(''.join(steps).removeprefix('.'))}`"


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _answer(node: Node, extra: Mapping[str, Any]) -> Answer:
    match node:
        case Not(of):
            answer = _answer(of, extra)
            return None if answer is None else not answer
        case Joined(word, of):
            decisive = word == "or"
            answers = [_answer(operand, extra) for operand in of]
            return decisive if decisive in answers else None if None in answers else not decisive
        case Comparison(operator, left, right):
            if Fixed(None) in (left, right):
                return _is_null(operator, _value(right if left == Fixed(None) else left, extra))
            return _compare(operator, _value(left, extra), _value(right, extra))


def _value(operand: Operand, extra: Any) -> Any:
    if isinstance(operand, Fixed):
        return operand.value
    value = extra
    for step in operand.path:
        value = _inside(value, step)
    return value


def _inside(value: Any, step: str | int) -> Any:
    if isinstance(step, str):
        return value.get(step, _MISSING) if isinstance(value, Mapping) else _MISSING
    return value[step] if isinstance(value, list) and step < len(value) else _MISSING


def _compare(operator: str, left: Any, right: Any) -> Answer:
    if left is _MISSING or right is _MISSING:
        return None
    if operator == "in":
        return _is_in(left, right)
    if operator in _ORDERS:
        ordered = kind_of(left) == kind_of(right) and kind_of(left) in ("number", "text")
        return _ORDERS[operator](left, right) if ordered else None
    same = _same(left, right)
    return same if same is None or operator == "==" else not same


def _is_null(operator: str, value: Any) -> Answer:
    """Comparison with `null`: known for every value that the extra has."""
    if operator == "in":
        return _compare(operator, None, value)
    return None if value is _MISSING else (value is None) is (operator == "==")


def _is_in(value: Any, values: Any) -> Answer:
    if not isinstance(values, list | tuple):
        return None
    answers = [_same(value, candidate) for candidate in values]
    return True if True in answers else False if False in answers or not answers else None


def _same(left: Any, right: Any) -> Answer:
    return bool(left == right) if kind_of(left) == kind_of(right) else None
