"""Checks of the arguments that DAG files pass; each raises DagError with what to write instead.

`where` begins the message: the DAG, task or object whose argument is checked.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, time, timedelta
from typing import Any, TypeVar

import msgspec

from tidegate.schemas.authoring.mistakes import notable
from tidegate.schemas.conditions.condition import MAX_SECONDS
from tidegate.schemas.dag import Secret, contains_nul
from tidegate.schemas.error import DagError, did_you_mean
from tidegate.schemas.time_range import in_range
from tidegate.schemas.timetable.wallclock import zone

Struct = TypeVar("Struct", bound=msgspec.Struct)
Value = TypeVar("Value")
Texts = Mapping[str, str | Secret] | None
"""Values by name, some of them secrets; None for none."""

_NAME = re.compile(r"(?!\.{1,2}$)[\w.-]{1,250}")
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def refuse_unknown(where: str, unknown: Iterable[str], called: Callable[..., Any]) -> None:
    """Raises DagError for the first argument of a call that has no such argument."""
    for argument in unknown:
        known = [option.name for option in inspect.signature(called).parameters.values() if option.kind is option.KEYWORD_ONLY]
        with notable():
            raise DagError(f"{where}: unknown argument {argument}{did_you_mean(argument, known)}")


def seconds(where: str, option: str, value: object) -> float:
    """A timedelta from 0 to ten years, in seconds."""
    if not isinstance(value, timedelta):
        raise DagError(f"{where}: {option} must be a timedelta like timedelta(minutes=5), not {value!r:.100}")
    if value < timedelta():
        raise DagError(f"{where}: {option} must not be negative")
    if value.total_seconds() > MAX_SECONDS:
        raise DagError(f"{where}: {option} must not be longer than ten years")
    return value.total_seconds()


def limit_seconds(where: str, option: str, value: object) -> float | None:
    """A timedelta above 0 and up to ten years, in seconds; None for no limit."""
    if value is None:
        return None
    limit = seconds(where, option, value)
    if not limit:
        raise DagError(f"{where}: {option} must be longer than 0; leave it out for no limit")
    return limit


def after_or_at(where: str, after: object, at: object) -> float | None:
    """Exactly one of a duration above 0, which is returned in seconds, and a time of day without a zone."""
    if (after is None) == (at is None):
        raise DagError(f"{where}: write either after=timedelta(hours=1) or at=time(9, 0)")
    if at is not None and (not isinstance(at, time) or at.tzinfo is not None):
        raise DagError(f"{where}: at must be a time without a zone like time(9, 0), not {at!r:.100}; it is in the DAG's")
    if after is None:
        return None
    if not (after_s := seconds(where, "after", after)):
        raise DagError(f"{where}: after must be longer than 0")
    return after_s


def aware_datetime(where: str, option: str, value: object) -> datetime | None:
    """A datetime with a time zone, in the range of times, or None."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise DagError(f"{where}: {option} must be a datetime, not {value!r:.100}")
    if value.tzinfo is None:
        raise DagError(f"{where}: {option} has no time zone; write datetime(…, tzinfo=ZoneInfo('Europe/Zurich'))")
    try:
        return in_range(f"{where}: {option}", value)
    except ValueError as error:
        raise DagError(str(error)) from None


def time_zone(where: str, name: object) -> str:
    """The name of a zone of the tz database."""
    if not isinstance(name, str):
        raise DagError(f"{where}: timezone must be a name like 'Europe/Zurich', not {name!r:.100}")
    try:
        zone(name)
    except ValueError as error:
        raise DagError(f"{where}: {error}") from None
    return name


def valid_name(what: str, value: object) -> str:
    """The id of a DAG, a task or a task group."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise DagError(f"{what} {value!r:.100}: a name is 1 to 250 letters, digits, _, - or ., and not only one or two dots")
    return value


def string_dict(where: str, option: str, value: Texts) -> dict[str, str | Secret]:
    """A dict with strings as keys, and strings and secrets as values; empty for None."""
    if value is not None and not isinstance(value, Mapping):
        raise DagError(f"{where}: {option} must be a dict of strings, not {value!r:.100}")
    for key, item in (value or {}).items():
        if not isinstance(key, str) or not isinstance(item, str | Secret):
            raise DagError(f"{where}: {option} must be a dict of strings and secrets, not {{{key!r:.100}: {item!r:.100}}}")
    return dict(value or {})


def environment(where: str, option: str, value: Any) -> dict[str, str | Secret]:
    """Environment variables of a task. The names that the runner sets are refused."""
    chosen = string_dict(where, option, value)
    for name in chosen:
        if not _VARIABLE.fullmatch(name):
            raise DagError(
                f"{where}: env {name!r:.100}: the name of a variable is letters, digits and _, and begins with no digit"
            )
        if name.startswith("TIDEGATE_") or name == "TASK_SUBMISSION_ID":
            raise DagError(f"{where}: env {name!r:.100} is set by Tidegate; choose another name")
    return chosen


def client_mode(where: str, value: object) -> None:
    """The deploy mode of an application. In cluster mode, the end of spark-submit is not that of the driver."""
    if value not in ("client", "cluster"):
        raise DagError(f'{where}: deploy_mode must be "client", not {value!r:.100}')
    if value == "cluster":
        why = "a driver inside of the cluster could be neither followed nor ended"
        raise DagError(f"{where}: deploy_mode {value!r:.100}: {why}; leave it out: the driver runs on the host of the daemon")


def string_tuple(where: str, option: str, value: Iterable[str], *, takes_sets: bool = False) -> tuple[str, ...]:
    """Strings in an order. One bare string is refused: it would be taken apart into characters."""
    given = in_order(value) if takes_sets else value
    if isinstance(given, str | set | frozenset | Mapping) or not isinstance(given, Iterable):
        raise DagError(f"{where}: {option} must be a list of strings, not {value!r:.100}")
    return tuple(given)


def in_order(values: Iterable[Value]) -> Iterable[Value]:
    """The values, those of a set sorted: its own order differs in each process, and would make a version at each parse."""
    return sorted(values, key=repr) if isinstance(values, set | frozenset) else values


def fits_type(where: str, spec: Struct) -> Struct:
    """Return `spec` once each field has the type and bounds that its struct declares, and Postgres can store its texts."""
    try:
        checked = msgspec.convert(msgspec.to_builtins(spec), type(spec))
        has_nul = contains_nul(msgspec.json.encode(checked))
    except UnicodeEncodeError as error:
        raise DagError(f"{where}: a text is not valid Unicode: {error}") from None
    except msgspec.ValidationError as error:
        problem, _, path = str(error).rpartition(" - at `$.")
        remedy = "; write str(…) around it" if problem.startswith("Expected `str`, got") else ""
        raise DagError(f"{where}: {path.removesuffix('`')}: {problem[:1].lower()}{problem[1:]}{remedy}") from None
    except (TypeError, ValueError) as error:
        raise DagError(f"{where}: {error}") from None
    if has_nul:
        raise DagError(f"{where}: a text contains a NUL character")
    return checked


def callable_with(where: str, function: Callable[..., Any], *parameters: str, name: str = "the function") -> None:
    """A plain function that accepts as many positional arguments as `parameters` names."""
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        one = " one" if name == "the function" else " function"
        raise DagError(f"{where}: {name} must be a plain{one}, neither async nor a generator")
    expected = f"({', '.join(parameters)})"
    try:
        signature = inspect.signature(function)
    except ValueError:
        raise DagError(f"{where}: {name} is called with {expected}, but Python does not know its parameters") from None
    try:
        signature.bind(*parameters)
    except TypeError:
        raise DagError(f"{where}: {name} is called with {expected}, but its parameters are {signature}") from None
