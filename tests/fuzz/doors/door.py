"""The shape of a door."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis.strategies import SearchStrategy

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Place(NamedTuple):
    """What a door may use: an empty folder, and a Postgres with a migrated database, for doors that need one."""

    home: Path
    postgres: str = ""
    template: str = ""


@contextmanager
def folder(place: Place) -> Iterator[Path]:
    """The surroundings of a door that needs no more than a folder."""
    yield place.home


class Door(NamedTuple):
    """`enter` gives an input to the door, and raises for an answer that it must not give.

    `share` is the part of all inputs, in thousandths, that `python -m tests.fuzz` gives to the door: more if it is fast.
    `surroundings` are opened once, and given to `enter` with each of many inputs. `in_suite` is the number of inputs in a run of
    all tests, where each door has some seconds.
    """

    inputs: SearchStrategy[Any]
    enter: Callable[[Any, Any], None]
    share: int
    surroundings: Callable[[Place], AbstractContextManager[Any]] = folder
    in_suite: int = 100
    needs_postgres: bool = False


def check(holds: bool) -> None:
    """The error names what is wrong."""
    assert holds
