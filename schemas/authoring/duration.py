"""Durations as DAG authors write them: timedeltas, in seconds once they are serialised."""

from datetime import timedelta

from tidegate.schemas.conditions.condition import MAX_SECONDS
from tidegate.schemas.error import DagError

ZERO = timedelta()


def duration(where: str, option: str, value: object) -> float:
    """Seconds. Raises DagError."""
    if not isinstance(value, timedelta):
        raise DagError(f"{where}: {option} must be a timedelta like timedelta(minutes=5), not {value!r:.100}")
    if value < ZERO:
        raise DagError(f"{where}: {option} must not be negative")
    if value.total_seconds() > MAX_SECONDS:
        raise DagError(f"{where}: {option} must not be longer than ten years")
    return value.total_seconds()


def limit(where: str, option: str, value: object) -> float | None:
    """Seconds, more than none; None for no limit. Raises DagError."""
    if value is None:
        return None
    seconds = duration(where, option, value)
    if not seconds:
        raise DagError(f"{where}: {option} must be longer than 0; leave it out for no limit")
    return seconds
