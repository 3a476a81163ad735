"""Months of the event ledger in UTC, with which the ids of events begin: 2612 is December 2026.

0 is the partition of events from before ids had months.
"""

from datetime import UTC, datetime

BEFORE = 0
FIRST = 2001
"""January 2020, the earliest month of an id."""


def month_of(at: datetime) -> int:
    """The month of a time."""
    moment = at.astimezone(UTC)
    return (moment.year - 2000) * 100 + moment.month


def after(month: int) -> int:
    """The month after this one."""
    if month == BEFORE:
        return FIRST
    return month + 1 if month % 100 < 12 else month + 89


def begin_of(month: int) -> datetime:
    """The beginning of a month."""
    return datetime(2000 + month // 100, month % 100, 1, tzinfo=UTC)


def end_of(month: int) -> datetime:
    """The end of a month; for `BEFORE`, a time before every event."""
    return begin_of(after(month))
