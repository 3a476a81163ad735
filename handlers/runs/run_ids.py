"""The ids of runs, by their type; users may choose ids without a reserved prefix."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import NAMESPACE_OID, uuid5

from tidegate.schemas.state import RunType
from tidegate.schemas.view import PendingEvent

RESERVED = tuple(f"{run_type}__" for run_type in RunType if run_type is not RunType.MANUAL)
"""Prefixes that users may not choose: the id of a later run of this type might be the same."""


def scheduled_run_id(logical_date: datetime) -> str:
    """`scheduled__<date>`, unique because a logical date has one run."""
    return f"scheduled__{logical_date.isoformat()}"


def dataset_run_id(number: int, run_after: datetime, events: Sequence[PendingEvent]) -> str:
    """`dataset__<time>_<hash of the consumed events>`, unique because two runs never consume the same event.

    The hash is long because all events of a producer may have the same time. Without events it is that of the run's `number`.
    """
    consumed = ",".join(str(event.dataset_event_id) for event in events) or f"run {number}"
    return f"dataset__{run_after.astimezone(UTC).isoformat()}_{uuid5(NAMESPACE_OID, consumed).hex[:16]}"


def backfill_run_id(logical_date: datetime) -> str:
    """`backfill__<date>`, unique because a logical date has one run."""
    return f"backfill__{logical_date.isoformat()}"


def manual_run_id(at: datetime) -> str:
    """`manual__<time>`."""
    return f"manual__{at.astimezone(UTC).isoformat()}"


def reserved_prefix(run_id: str) -> str | None:
    """The reserved prefix of an id; None for an id that users may choose."""
    return next((prefix for prefix in RESERVED if run_id.startswith(prefix)), None)
