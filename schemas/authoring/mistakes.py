"""Mistakes of a DAG file. The first one ends the file, unless they are noted: then the file goes on as far as it can."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from tidegate.schemas.error import DagError


class _Notes(NamedTuple):
    filename: str
    errors: list[DagError]


_notes: ContextVar[_Notes | None] = ContextVar("noted_mistakes", default=None)


@contextmanager
def note_mistakes(filename: str) -> Iterator[list[DagError]]:
    """Note the mistakes that the block meets, each with its place in the file, also the one that ends the block."""
    notes = _Notes(filename, [])
    token = _notes.set(notes)
    try:
        with notable():
            yield notes.errors
    finally:
        _notes.reset(token)


class notable:  # noqa: N801 - it reads as a word of the language
    """Where mistakes are noted, end the block at a DagError and go on after it."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        notes = _notes.get()
        if notes is None or not isinstance(error, DagError):
            return False
        if str(error) not in map(str, notes.errors):
            notes.errors.append(DagError(str(error), error.place or _place(notes.filename, error)))
        return True


def _place(filename: str, error: BaseException) -> tuple[str, int] | None:
    """The line of the file that raised the error, or that called what noted it."""
    raised = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == filename]
    called = [line for frame, line in traceback.walk_stack(sys._getframe(1)) if frame.f_code.co_filename == filename]
    return next(((filename, line) for line in (*raised[-1:], *called)), None)
