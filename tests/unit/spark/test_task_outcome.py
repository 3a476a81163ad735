"""The outcomes of functions: what they return, raise or exit with is an outcome that daemons can read."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from traceback import walk_tb
from typing import Any

import msgspec
import numpy
import pytest

from tidegate.daemon.spark.runner import task_outcome
from tidegate.daemon.spark.runner.task_outcome import exit_code_of, outcome_of
from tidegate.daemon.spark.spool import Outcome
from tidegate.schemas.run import SkipTask, follow


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise KeyError("payload")


class UnprintableSkipError(UnprintableError, SkipTask): ...


def raising(error: BaseException) -> Callable[[], object]:
    def call() -> object:
        raise error

    return call


def outcome(call: Callable[[], object]) -> Outcome:
    """The outcome as a daemon reads it."""
    return msgspec.json.decode(msgspec.json.encode(outcome_of(call, Path("/dags"), lambda _: None)), type=Outcome)


@pytest.mark.parametrize(
    ("code", "name", "exit_code", "reason"),
    [
        (None, "succeeded", 0, ""),
        (0, "succeeded", 0, ""),
        (False, "succeeded", 0, ""),
        (3, "failed", 3, "SystemExit: 3"),
        (True, "failed", 1, "SystemExit: True"),
        (2**31 - 1, "failed", 2**31 - 1, "SystemExit: 2147483647"),
        (2**31, "failed", 1, "SystemExit: 2147483648"),
        (-(2**31) - 1, "failed", 1, "SystemExit: -2147483649"),
        ("no rows", "failed", 1, "SystemExit: no rows"),
    ],
)
def test_an_exit_is_a_success_only_with_zero(code: str | int | None, name: str, exit_code: int, reason: str) -> None:
    found = outcome(lambda: sys.exit(code))

    assert (found.outcome, found.exit_code, found.reason) == (name, exit_code, reason)
    assert type(found.exit_code) is int


@pytest.mark.parametrize(
    ("error", "name", "reason"),
    [
        (UnprintableError(), "failed", "UnprintableError"),
        (UnprintableSkipError(), "skipped", ""),
        (SystemExit(UnprintableError()), "failed", "SystemExit: "),
        (SkipTask("no rows"), "skipped", "no rows"),
        (ValueError("file \udcff"), "failed", "ValueError: file ?"),
        (SkipTask("file \udcff"), "skipped", "file ?"),
    ],
)
def test_an_exception_that_cannot_be_shown_is_an_outcome(error: BaseException, name: str, reason: str) -> None:
    found = outcome(raising(error))

    assert (found.outcome, found.reason) == (name, reason)


@pytest.mark.parametrize(
    ("call", "folder", "frames"),
    [
        (raising(ValueError("no rows")), Path("/dags"), ["call"]),
        (raising(ValueError("no rows")), Path(task_outcome.__file__).parent, ["outcome_of", "call"]),
        (partial(int, "no number"), Path("/dags"), ["outcome_of"]),
    ],
)
def test_a_traceback_begins_with_the_task(call: Callable[[], object], folder: Path, frames: list[str]) -> None:
    raised: list[BaseException] = []

    outcome_of(call, folder, raised.append)

    (error,) = raised
    assert [frame.f_code.co_name for frame, _ in walk_tb(error.__traceback__)] == frames


@pytest.mark.parametrize(
    ("call", "code"),
    [(lambda: 7, 0), (lambda: sys.exit(3), 3), (raising(SkipTask("no rows")), 1), (raising(ValueError("no rows")), 1)],
)
def test_a_call_ends_a_process_that_the_task_has_forked_with_its_exit_code(call: Callable[[], object], code: int) -> None:
    assert exit_code_of(outcome(call)) == code


def test_a_scalar_of_numpy_is_a_result_and_an_array_is_none() -> None:
    assert outcome(lambda: {"rows": numpy.int64(3), "late": numpy.int64(3) > 2}).result == {"rows": 3, "late": True}
    assert outcome(lambda: numpy.array([3])).result is None


@pytest.mark.parametrize("chosen", [3, ["b", "c"]])
def test_a_choice_of_no_task_ids_fails_with_what_to_write(chosen: Any) -> None:
    assert outcome(lambda: follow("a", chosen)).reason == (
        f"TypeError: follow: {chosen!r} is no task id; write the id as a text, like follow('load')"
    )
