"""A line of a list of facts on a page."""

from datetime import datetime
from typing import NamedTuple


class Fact(NamedTuple):
    """A fact with its name: the time `at`, which pages show relative to now, and a text, which leads to `address`."""

    name: str
    text: str = ""
    address: str = ""
    at: datetime | None = None
