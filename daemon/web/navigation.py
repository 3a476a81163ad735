"""The navigation at the top of every page: the lists, and the pages of the system below them."""

from collections.abc import Sequence
from typing import NamedTuple

SYSTEM, AUDIT = "/system", "/audit"

PAGES = {
    "/": "Now",
    "/dags": "DAGs",
    "/backfills": "Backfills",
    "/datasets": "Datasets",
    "/queue": "Queue",
    "/clusters": "Clusters",
    SYSTEM: "System",
}

OF_SYSTEM = {
    SYSTEM: "System",
    "/dead-letters": "Dead letters",
    "/import-errors": "Import errors",
    "/notifications": "Notifications",
    AUDIT: "Audit",
}
"""The pages in a line below, which a page of the system shows."""

SECTIONS = {"dataset": "/datasets", "events": "/datasets", "losses": SYSTEM, "topics": SYSTEM}
"""By the first part of a path, the page that it belongs to; any other belongs to the page of the same name."""


class Link(NamedTuple):
    """A page; `is_current`: the page that is shown belongs to it."""

    address: str
    name: str
    is_current: bool


class Navigation(NamedTuple):
    """The pages, and those of the system, which are empty elsewhere."""

    pages: Sequence[Link]
    below: Sequence[Link]


def navigation_of(path: str, *, may_operate: bool) -> Navigation:
    """Operators alone read the audit log."""
    first = path.split("/")[1]
    section = SECTIONS.get(first, f"/{first}")
    of_system = {address: name for address, name in OF_SYSTEM.items() if may_operate or address != AUDIT}
    is_below = section in of_system
    return Navigation(_links(PAGES, SYSTEM if is_below else section), _links(of_system if is_below else {}, section))


def _links(pages: dict[str, str], current: str) -> list[Link]:
    return [Link(address, name, address == current) for address, name in pages.items()]
