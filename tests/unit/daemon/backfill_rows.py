"""Rows of backfills for pages and their read model."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from tidegate.schemas.queries.backfill_pages import BackfillRow

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def row(**given: Any) -> BackfillRow:
    """A running backfill."""
    counts = dict.fromkeys(
        ("queued", "running", "waiting", "unstarted", "tasks", "tasks_succeeded", "tasks_skipped", "tasks_failed"), 0
    )
    known = {
        **counts,
        "id": 1,
        "dag_id": "daily",
        "version_id": 1,
        "version": 1,
        "newest_version": 1,
        "relative_fileloc": "daily.py",
        "submitted_by": "anna",
        "scheduled_date": None,
        "delete_date": None,
        "inactive_dag_id": None,
        "dag_state": "",
        "stopped_by": None,
        "stopped_at": None,
        "state": "running",
        **dict.fromkeys(("start_date", "end_date", "horizon", "submitted_at", "updated_at"), NOW),
    }
    return msgspec.convert({**known, **given}, BackfillRow)
