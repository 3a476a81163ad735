"""The shape of a door."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis.strategies import SearchStrategy

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Door(NamedTuple):
    """`enter` gives an input to the door, and raises for an answer that it must not give.

    `share` is the part of all inputs, in thousandths, that `python -m tests.fuzz` gives to the door: more if it is fast.
    The folder that `enter` gets is empty at first, and the same for all inputs.
    """

    inputs: SearchStrategy[Any]
    enter: Callable[[Any, Path], None]
    share: int


def check(holds: bool) -> None:
    """The error names what is wrong."""
    assert holds
