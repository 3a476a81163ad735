"""The one range of times that records, commands and DAG files may name.

No computation with a time of this range and the durations that a DAG may have leaves the calendar, in any time zone.
"""

from datetime import UTC, datetime

EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 1, 1, tzinfo=UTC)


def in_range(what: str, at: datetime) -> datetime:
    """The aware time `at`. Raises ValueError for one outside the range, with a sentence that begins with `what`."""
    if EARLIEST <= at <= LATEST:
        return at
    raise ValueError(f"{what} {at.isoformat()} is out of range; write a time from {EARLIEST:%Y-%m-%d} to {LATEST:%Y-%m-%d} UTC")


def clamped(instant: datetime) -> datetime:
    """The instant in UTC, clamped to the range."""
    roughly = instant.replace(tzinfo=UTC)
    return instant.astimezone(UTC) if EARLIEST < roughly < LATEST else min(max(roughly, EARLIEST), LATEST)
