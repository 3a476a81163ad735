"""What a caller sent, as the type that an endpoint declares. An error names the parameter, and what it may be."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from tidegate.daemon.gateway.problem import InvalidError

T = TypeVar("T")

_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_NO_VALUE = re.compile(r"Invalid enum value (?P<given>.*)", re.DOTALL)


def given_once(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Raises InvalidError for a name that has two values: one of them would be ignored."""
    known = list(pairs)
    for name, times in Counter(name for name, _ in known).items():
        if times > 1:
            raise InvalidError(f"{name}: it is given {times} times, in the path or the query; give it once", field=name)
    return dict(known)


def converted(values: Any, type_: type[T], *, strict: bool) -> T:
    """Raises InvalidError for values of another shape."""
    try:
        return msgspec.convert(values, type_, strict=strict)
    except (ValueError, OverflowError) as error:
        raise _invalid(str(error), type_) from error


def _invalid(problem: str, type_: Any) -> InvalidError:
    """`Expected `int` >= 1 - at `$.limit`` as an error that begins with the parameter."""
    expected, _, path = problem.partition(" - at `$.")
    field = path.rstrip("`")
    known = _fields(inspect.type_info(type_))
    if not path and (unknown := _UNKNOWN.fullmatch(expected)):
        what = f"there is {_listed(list(known))}" if known else "leave it out"
        return InvalidError(f"`{unknown['name']}` is unknown; {what}", field=unknown["name"])
    values = list(_values(known.get(field)))
    if values and (wrong := _NO_VALUE.fullmatch(expected)):
        expected = f"it is {wrong['given']}, but must be {_listed(values)}"
    return InvalidError(f"{field}: {expected[:1].lower()}{expected[1:]}" if path else problem, field=field)


def _fields(type_: inspect.Type) -> dict[str, inspect.Type]:
    return {field.encode_name: field.type for field in type_.fields} if isinstance(type_, inspect.StructType) else {}


def _values(type_: inspect.Type | None) -> Iterator[str]:
    """The texts of an enumeration."""
    match type_:
        case inspect.EnumType(cls=cls):
            yield from (str(member.value) for member in cls)
        case inspect.LiteralType(values=values):
            yield from map(str, values)
        case inspect.Metadata(type=described):
            yield from _values(described)
        case inspect.UnionType(types=types):
            yield from (value for part in types for value in _values(part))
        case _:
            pass


def _listed(names: Sequence[str]) -> str:
    """`a, b or c`."""
    return " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
