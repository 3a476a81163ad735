"""The one range of times that records, commands and DAG files may name.

No computation with a time of this range and the durations that a DAG may have leaves the calendar, in any time zone.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from msgspec import Meta

Moment = Annotated[datetime, Meta(tz=True)]
"""A time with a zone."""

EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 1, 1, tzinfo=UTC)


def in_range(what: str, at: datetime) -> datetime:
    """The aware time `at`. Raises ValueError for one outside the range, with a sentence that begins with `what`."""
    if EARLIEST <= at <= LATEST:
        return at
    raise ValueError(f"{what} {at.isoformat()} is out of range; write a time from {EARLIEST:%Y-%m-%d} to {LATEST:%Y-%m-%d} UTC")


def parse_time(text: str) -> datetime:
    """A date or a time that a user wrote, in UTC; one without an offset is UTC. Raises ValueError for other text."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError("write a date or a time like 2013-01-31, 2013-01-31T06:00 or 2013-01-31T06:00+01:00") from error
    return in_range("the time", at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)


def parse_end(text: str) -> datetime:
    """As `parse_time`; a date is the last moment of that day in the range."""
    at = parse_time(text)
    return min(at + timedelta(days=1, microseconds=-1), LATEST) if is_date(text) else at


def is_date(text: str) -> bool:
    """Whether a text is a date without a time."""
    return len(text) <= len("2013-01-31")


def clamped(instant: datetime) -> datetime:
    """The instant in UTC, clamped to the range."""
    return min(max(instant, EARLIEST), LATEST).astimezone(UTC)
