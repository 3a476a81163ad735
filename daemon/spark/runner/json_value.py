"""The values that a task gives its events and returns, as JSON has them."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_TIMES = "mM"
"""The kinds of numpy's times: `.item()` of one in nanoseconds is a number without a unit."""

_LEAVES = (bool, int, float, str)


def encoded(value: object) -> bytes:
    """The value as JSON; scalars of numpy, and so of pandas, are as those of Python. Raises TypeError for what JSON lacks."""
    return msgspec.json.encode(value, enc_hook=_scalar)


def misfit(value: object, path: str = "") -> str:
    """Which part of a value JSON does not have, and what to write for it; empty if there is none."""
    return next(_misfits(value, path), "")


def _misfits(value: object, path: str) -> Iterator[str]:
    match value:
        case Mapping():
            yield from (found for key, part in value.items() for found in _misfits(part, f"{path}.{key}".removeprefix(".")))
        case list() | tuple():
            yield from (found for index, part in enumerate(value) for found in _misfits(part, f"{path}[{index}]"))
        case _:
            yield from _leaf(value, f"`{path:.200}`")


def _leaf(value: object, name: str) -> Iterator[str]:
    try:
        plain = value if isinstance(value, str) else msgspec.to_builtins(value, enc_hook=_scalar)
    except (TypeError, ValueError):
        kind = type(value).__name__
        yield f"{name} is of type {kind}, which JSON does not have: write int(…), float(…), str(…) or .tolist() of it"
        return
    if isinstance(plain, float) and not math.isfinite(plain):
        yield f"{name} is {plain}, which JSON does not have: write None, or leave it out"


def _scalar(value: Any) -> object:
    """What msgspec does not know. An array of one element has `.item()` too, and stays an array."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if getattr(value, "ndim", None) == 0 and kind not in _TIMES and isinstance(found := value.item(), _LEAVES):
        return found
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
