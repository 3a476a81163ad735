"""Headings and tables on a terminal. Slow to import, for it imports rich."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

STYLES: Mapping[str, str] = {
    "active": "green",
    "paused": "yellow",
    "stale": "dim",
    "scheduled": "yellow",
    "queued": "yellow",
    "running": "cyan",
    "success": "green",
    "succeeded": "green",
    "skipped": "dim",
    "removed": "dim",
    "failed": "red",
    "upstream_failed": "red",
    "killed": "red",
    "lost": "red",
    "up_for_retry": "yellow",
}
"""Styles of the states in columns called STATE."""


def heading(text: str) -> None:
    Console(highlight=False).print(Text(text, style="bold"))


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """At most as wide as the terminal: long cells wrap, they are never truncated."""
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in titles:
        drawn.add_column(title, overflow="fold")
    for row in rows:
        styled = (Text(cell, STYLES.get(cell, "") if title == "STATE" else "") for title, cell in zip(titles, row, strict=True))
        drawn.add_row(*styled)
    Console(highlight=False).print(drawn)
