"""The values that a task gives its events and returns, as JSON has them."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tidegate.daemon.spark.runner.failure_reason import message_of
from tidegate.schemas.error import FATAL

_TIMES = "mM"
"""The kinds of numpy's times: `.item()` of one in nanoseconds is a number without a unit."""

_LEAVES = (bool, int, float, str)


def encoded(value: object) -> bytes:
    """The value as JSON; scalars of numpy, and so of pandas, are as those of Python. Raises TypeError with the part that misfits.

    The value may be of a class of the task, which raises anything as it is read.
    """
    try:
        return msgspec.json.encode(value, enc_hook=_scalar)
    except FATAL:
        raise
    except Exception as error:
        raise TypeError(misfit(value) or _raised(error)) from error


def misfit(value: object, path: str = "") -> str:
    """Which part of a value JSON does not have, and what to write for it; empty if there is none."""
    return next(_misfits(value, path), "")


def _misfits(value: object, path: str) -> Iterator[str]:
    """Contains what a part raises where its path is known: here, not in the parts around it."""
    try:
        yield from _in_parts(value, path)
    except FATAL:
        raise
    except Exception as error:  # noqa: BLE001 - a class of the task may raise anything here
        yield f"{_name(path)} cannot be written as JSON: {_raised(error)}"


def _in_parts(value: object, path: str) -> Iterator[str]:
    match value:
        case Mapping():
            yield from (found for key, part in value.items() for found in _misfits(part, f"{path}.{key}".removeprefix(".")))
        case list() | tuple():
            yield from (found for index, part in enumerate(value) for found in _misfits(part, f"{path}[{index}]"))
        case _:
            yield from _leaf(value, _name(path))


def _name(path: str) -> str:
    return f"`{path:.200}`" if path else "the value"


def _raised(error: Exception) -> str:
    return f"{type(error).__name__}: {message_of(error):.200}"


def _leaf(value: object, name: str) -> Iterator[str]:
    try:
        plain = value if isinstance(value, str) else msgspec.to_builtins(value, enc_hook=_scalar)
    except (TypeError, ValueError):
        kind = type(value).__name__
        yield f"{name} is of type {kind}, which JSON does not have: write int(…), float(…), str(…) or .tolist() of it"
        return
    if isinstance(plain, float) and not math.isfinite(plain):
        yield f"{name} is {plain}, which JSON does not have: write None, or leave it out"
    msgspec.json.encode(plain, enc_hook=_scalar)  # raises for a text with half a surrogate pair


def _scalar(value: Any) -> object:
    """What msgspec does not know. An array of one element has `.item()` too, and stays an array."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if getattr(value, "ndim", None) == 0 and kind not in _TIMES and isinstance(found := value.item(), _LEAVES):
        return found
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
