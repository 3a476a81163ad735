"""What was asked for by a backfill, and its limits, in words."""

from collections.abc import Sequence
from datetime import datetime

from tidegate.daemon.read_model.backfill import dates_text
from tidegate.daemon.web.fact import Fact
from tidegate.daemon.web.fields import json_text
from tidegate.daemon.web.rendering import dag_url
from tidegate.schemas.backfill import FIRST_IGNORES, Outlets, Reprocess
from tidegate.schemas.queries.backfill_pages import BackfillRow
from tidegate.schemas.text import counted, took

EXISTING = {
    Reprocess.NONE: "stay as they are",
    Reprocess.FAILED: "run again if they failed",
    Reprocess.COMPLETED: "run again if they have ended",
}
CONSUMERS = {
    Outlets.EVENTS: "the usual events",
    Outlets.NONE: "nothing",
    Outlets.CASCADE: "the usual events; their runs run again, too",
}
UNLIMITED = "no limit"


def asked_for(row: BackfillRow, now: datetime) -> Sequence[Fact]:
    version = dag_url(row.dag_id, "versions", row.version)
    first = [Fact("first date", FIRST_IGNORES)] if row.ignore_first_depends_on_past else []
    conf = [Fact("conf", json_text(row.dag_params))] if row.dag_params else []
    ended = [Fact("ended", _after(row, now), at=row.run_end_date)] if row.run_end_date else []
    return [
        Fact("dates", f"{dates_text(row)}, {'newest' if row.is_reverse else 'oldest'} first"),
        *first,
        Fact("existing runs", EXISTING[row.reprocess]),
        Fact("consumers get", CONSUMERS[row.outlets]),
        Fact("version", f"{row.version} of {row.relative_fileloc}", version),
        *conf,
        Fact("created", f"by {row.submitted_by}", at=row.submitted_at),
        Fact("started", "" if row.run_start_date else "not yet", at=row.run_start_date),
        *ended,
    ]


def _after(row: BackfillRow, now: datetime) -> str:
    """A backfill may end before it starts."""
    duration = took(row.run_start_date, row.run_end_date, now)
    return f"after {duration}" if duration else ""


def limits(row: BackfillRow) -> Sequence[Fact]:
    failed = counted(row.max_failed_runs, "failed date", "failed dates")
    return [
        Fact("active runs", str(row.max_active_runs)),
        Fact("active tasks", str(row.max_active_tasks or UNLIMITED)),
        Fact("share of a pool", f"{100 * row.share:g}%" if row.share else UNLIMITED),
        Fact("pool", row.pool or "those of its tasks"),
        Fact("priority", str(row.priority)),
        Fact("stops after", failed if row.max_failed_runs else "no number of failures"),
    ]
