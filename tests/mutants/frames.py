"""A plugin of pytest for runs over mutants: code that looks at its caller does not see what mutmut puts between."""

import sys
from types import FrameType

import pytest
from mutmut.mutation import trampoline

TRAMPOLINE = trampoline.__file__

_getframe = sys._getframe


def pytest_configure(config: pytest.Config) -> None:
    sys._getframe = frame


def frame(depth: int = 0) -> FrameType:
    """As `sys._getframe`, of a program without trampolines."""
    found: FrameType | None = _getframe(1)
    while found is not None and (depth > 0 or found.f_code.co_filename == TRAMPOLINE):
        depth -= found.f_code.co_filename != TRAMPOLINE
        found = found.f_back
    if found is None:
        raise ValueError("call stack is not deep enough")
    return found
