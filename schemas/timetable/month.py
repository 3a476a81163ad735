"""Months of the event ledger, as the ids of events begin with them: 2612 is December 2026. In UTC.

0 stands for everything before there were months: it ends where ids begin with one.
"""

from datetime import UTC, datetime

BEFORE = 0
FIRST = 2001
"""January 2020: no id begins with an earlier month."""


def month_of(at: datetime) -> int:
    """The month of a moment."""
    moment = at.astimezone(UTC)
    return (moment.year - 2000) * 100 + moment.month


def after(month: int) -> int:
    """The month after this one."""
    if month == BEFORE:
        return FIRST
    return month + 1 if month % 100 < 12 else month + 89


def begin_of(month: int) -> datetime:
    """The first moment of a month."""
    return datetime(2000 + month // 100, month % 100, 1, tzinfo=UTC)


def end_of(month: int) -> datetime:
    """The moment in which a month is over; what was before there were months is over since ever."""
    return begin_of(after(month))
