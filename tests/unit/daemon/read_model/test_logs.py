"""Where a log is that this host does not have."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from tidegate.daemon.read_model.logs import LogRequest, location
from tidegate.schemas.queries.run_pages import RunAttemptRow

THERE = "there, with the TIDEGATE_SPOOL_DIR of its daemon, `tidegate tasks logs d r 'load[3]' --try 1` prints it"
REMOVED = "it ran here, and its log was removed, as all are after TIDEGATE_SPOOL_DAYS"


@pytest.mark.parametrize(
    ("host", "state", "text"),
    [
        ("worker-7/1f", "accepted", f"it ran on worker-7/1f; {THERE}"),
        ("worker-7/1f", "killed", f"it ran on worker-7/1f; {THERE}; it has ended: killed"),
        ("worker-7/1f", "failed", f"it ran on worker-7/1f; {THERE}, from /spool/1/log; it has ended: failed"),
        ("here", "succeeded", f"{REMOVED}; it has ended: succeeded"),
        (None, "accepted", "no host is recorded for it"),
        (None, "lost", "no host is recorded for it; it has ended: lost"),
    ],
)
def test_the_location_names_the_host_and_the_end_of_a_try(host: str | None, state: str, text: str) -> None:
    attempt = RunAttemptRow(
        map_index=None,
        task_id="t",
        try_number=1,
        submission_id=UUID(int=1),
        backend="local",
        state=state,
        host=host,
        reason="",
        exit_code=None,
        created_at=datetime(2024, 5, 1, tzinfo=UTC),
        submitted_at=None,
        started_at=None,
        ended_at=None,
        log_path="/spool/1/log" if state == "failed" else None,
    )

    assert location(attempt, LogRequest("d", "r", "load[3]", None), "here") == text
