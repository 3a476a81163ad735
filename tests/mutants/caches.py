"""A plugin of pytest for runs over mutants, each of which inherits the caches of the run before: every test begins without."""

import sys
from collections.abc import Callable, Iterator

import pytest

CLEARS = pytest.StashKey[tuple[Callable[[], None], ...]]()


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[CLEARS] = tuple(_clears())


def pytest_runtest_setup(item: pytest.Item) -> None:
    for clear in item.config.stash[CLEARS]:
        clear()


def _clears() -> Iterator[Callable[[], None]]:
    for name, module in tuple(sys.modules.items()):
        if name.startswith("tidegate."):
            yield from (value.cache_clear for value in vars(module).values() if hasattr(value, "cache_clear"))
