"""The texts that a user writes into the fields of a form, as values; each problem stands beside its field."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from tidegate.daemon.gateway import json_input
from tidegate.daemon.gateway.problem import InvalidError
from tidegate.schemas.time_range import parse_end, parse_time

T = TypeVar("T")


class Fields:
    """The texts of a form, and the problems that reading them found, by field."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.texts = {name: text.strip() for name, text in given.items()}
        self.problems: dict[str, str] = {}

    def value(self, name: str, read: Callable[[str], T]) -> T | None:
        """The value of a field; None without a text, and for one that cannot be read."""
        text = self.texts.get(name)
        if not text:
            return None
        try:
            return read(text)
        except (ValueError, OverflowError) as error:
            self.problems[name] = str(error)
            return None

    def check(self) -> None:
        """Raises InvalidError, which names the fields that cannot be read."""
        if self.problems:
            raise self.error()

    def error(self) -> InvalidError:
        return InvalidError("; ".join(f"{name}: {problem}" for name, problem in self.problems.items()))


def between(since: str, until: str) -> tuple[datetime | None, datetime | None]:
    """The times of two fields, None for an empty one. Raises InvalidError for one that cannot be read."""
    fields = Fields({"since": since, "until": until})
    times = fields.value("since", parse_time), fields.value("until", parse_end)
    fields.check()
    return times


def end_text(at: datetime) -> str:
    """The shortest text of which `parse_end` makes the time."""
    day = f"{at.astimezone(UTC):%Y-%m-%d}"
    return day if parse_end(day) == at else at.astimezone(UTC).isoformat()


def moments(text: str) -> tuple[datetime, ...]:
    """Times between commas or spaces, in order, each once. Raises ValueError."""
    return tuple(sorted({parse_time(word) for word in text.replace(",", " ").split()}))


def json_object(text: str) -> dict[str, Any]:
    """Raises ValueError."""
    try:
        found: dict[str, Any] = json_input.decode(text.encode(), dict[str, Any])
    except ValueError as error:
        raise ValueError(f'write a JSON object, such as {{"n": 3}} ({error})') from error
    return found


def json_text(value: Any) -> str:
    """A value as the JSON that a field takes."""
    return msgspec.json.encode(value).decode()
