"""The ids of runs, by their type; users may choose ids without a reserved prefix."""

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha1
from uuid import NAMESPACE_OID

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
    return f"dataset__{run_after.astimezone(UTC).isoformat()}_{_digest(consumed)}"


def _digest(consumed: str) -> str:
    """The first 16 digits of the `uuid5` of this text, in a third of its time. The thirteenth is the version of the UUID."""
    digest = sha1(NAMESPACE_OID.bytes + consumed.encode(), usedforsecurity=False).hexdigest()
    return f"{digest[:12]}5{digest[13:16]}"


def backfill_run_id(logical_date: datetime) -> str:
    """`backfill__<date>`, unique because a logical date has one run."""
    return f"backfill__{logical_date.isoformat()}"


def manual_run_id(at: datetime) -> str:
    """`manual__<time>`."""
    return f"manual__{at.astimezone(UTC).isoformat()}"


def reserved_prefix(run_id: str) -> str | None:
    """The reserved prefix of an id; None for an id that users may choose."""
    return next((prefix for prefix in RESERVED if run_id.startswith(prefix)), None)
