"""What coverage traces: the modules of the gate while they are imported, and the tests that count for it with all their fixtures.

pytest-cov alone traces the collection, the fixtures and reports of each test, and the process that leads the run.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests import order


def _controller(config: pytest.Config) -> Any:
    """Of pytest-cov; None without `--cov`."""
    return getattr(config.pluginmanager.get_plugin("_cov"), "cov_controller", None)


def begin(config: pytest.Config) -> None:
    """Import the modules of the gate, and trace nothing from now on."""
    controller = _controller(config)
    if controller is not None:
        handlers = importlib.import_module("tidegate.handlers")
        for module in pkgutil.walk_packages(handlers.__path__, f"{handlers.__name__}."):
            importlib.import_module(module.name)
        controller.pause()


@contextmanager
def traced(item: pytest.Item) -> Iterator[None]:
    """Trace what the block does for this test, if it counts."""
    controller = _controller(item.config) if order.counts_for_coverage(item.path) else None
    if controller is not None:
        controller.resume()
    try:
        yield
    finally:
        if controller is not None:
            controller.pause()
