"""Filters on the extra of events, and what they mean, in the plainest way."""

from collections.abc import Callable, Mapping
from typing import Any


def _number(extra: Mapping[str, Any]) -> float | None:
    n = extra.get("n")
    return n if isinstance(n, int) and not isinstance(n, bool) else None


def _above_two(extra: Mapping[str, Any]) -> bool | None:
    n = _number(extra)
    return None if n is None else n > 2


FILTERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "n > 2": lambda extra: _above_two(extra) is True,
    "not n > 2": lambda extra: _above_two(extra) is False,
    "n <= 2": lambda extra: _above_two(extra) is False,
    "kind in ['x', 'y']": lambda extra: extra.get("kind") in ("x", "y"),
    "kind == 'x' or n > 2": lambda extra: extra.get("kind") == "x" or _above_two(extra) is True,
    "not (kind == 'x' and n > 2)": lambda extra: (
        (isinstance(extra.get("kind"), str) and extra["kind"] != "x") or _above_two(extra) is False
    ),
}
"""Filters, and what they mean where fields may be missing or of another type."""
