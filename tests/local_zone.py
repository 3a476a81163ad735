"""Another time zone of the process."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def local_zone(name: str) -> Iterator[None]:
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TZ", name)
            time.tzset()
            yield
    finally:
        time.tzset()
