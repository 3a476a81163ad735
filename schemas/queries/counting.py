"""Bounds of what lists read: an old installation has millions of rows."""

COUNTED = 10_001
"""The most rows that a list counts; pages show it as 10,000+."""

EXTRA_BYTES = 16 << 20
"""So much extra of events is read at once."""


def tasks_wait(number: int) -> str:
    """`1 task waits`, `10,000+ tasks wait`."""
    return counted_to_bound(number, "task waits", "tasks wait")


def counted_to_bound(number: int, one: str, many: str) -> str:
    """`1 event`, `10,000+ events`."""
    return f"{counted_text(number)} {one if number == 1 else many}"


def counted_text(number: int) -> str:
    """A number for people: `10,000+` where the count stopped."""
    return str(number) if number < COUNTED else f"{COUNTED - 1:,}+"
