"""Gives inputs to a door, and prints less than the door does."""

import gc
import logging
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import structlog
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

from tests.fuzz.doors import DOORS
from tests.fuzz.doors.door import Place

PLACES = 4
PHASES = (Phase.generate, Phase.shrink)


class Result(NamedTuple):
    """`fault`: the smallest input that the door did not answer, with the exception; empty if it answered all."""

    door: str
    seed: int
    inputs: int
    fault: str


def play(name: str, seed: int, inputs: int, postgres: str = "", template: str = "") -> Result:
    """Give this many inputs to a door."""
    door, entered = DOORS[name], 0
    with (
        tempfile.TemporaryDirectory() as home,
        _quiet(),
        door.surroundings(Place(Path(home), postgres, template)) as surroundings,
    ):

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=inputs,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
            phases=PHASES,
        )
        @given(st.data())
        def enter(data: Any) -> None:
            nonlocal entered
            entered += 1
            door.enter(data.draw(door.inputs), surroundings)

        try:
            enter()
        except Exception as error:  # noqa: BLE001 - any exception is the result
            return Result(name, seed, entered, told(error))
    return Result(name, seed, entered, "")


def told(error: BaseException) -> str:
    """The exception, the last places that it passed, and the input; of a group, that of each exception."""
    if isinstance(error, BaseExceptionGroup):
        return "\n".join((str(error), *map(told, error.exceptions)))
    places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.line}" for frame in traceback.extract_tb(error.__traceback__)]
    notes = getattr(error, "__notes__", [])
    return "\n  ".join([f"{type(error).__name__}: {error}", *places[-PLACES:], *notes])


@contextmanager
def _quiet() -> Iterator[None]:
    """What a door prints and logs about an input is no finding, nor is a file that a DAG file opens and never closes."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    said = StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            yield
            gc.collect()
    finally:
        structlog.reset_defaults()
