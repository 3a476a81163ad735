"""What coverage traces: the modules of the gate while they are imported, and setup and call of the tests that count for it.

pytest-cov alone traces collection, fixtures and reports of all tests, and starts and stops coverage for each that does not count.
"""

import importlib
import pkgutil
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from tests import order
from tidegate import handlers


class Trace(NamedTuple):
    """The trace functions of this thread and of new threads."""

    own: Any
    new: Any


TRACE = pytest.StashKey[Trace]()


def begin(config: pytest.Config) -> None:
    """Import the modules of the gate; from now on nothing is traced, except by `traced`. Without `--cov` a debugger may trace."""
    if config.pluginmanager.has_plugin("_cov"):
        for module in pkgutil.walk_packages(handlers.__path__, f"{handlers.__name__}."):
            importlib.import_module(module.name)
        config.stash[TRACE] = _switch(Trace(None, None))


@contextmanager
def traced(item: pytest.Item) -> Generator[None]:
    """Trace what the block does for this test, if it counts."""
    trace = item.config.stash.get(TRACE, None)
    if trace is None or not order.counts_for_coverage(item.path):
        yield
        return
    before = _switch(trace)
    try:
        yield
    finally:
        _switch(before)


def _switch(trace: Trace) -> Trace:
    """Set these trace functions; returns those before. Coverage lets its own be set again."""
    before = Trace(sys.gettrace(), threading.gettrace())
    sys.settrace(trace.own)
    threading.settrace(trace.new)
    return before
