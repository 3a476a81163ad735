"""Where a log is that this host does not have."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from tidegate.daemon.read_model.logs import location
from tidegate.schemas.queries.run_pages import RunAttemptRow


@pytest.mark.parametrize(
    ("host", "state", "text"),
    [
        ("worker-7", "accepted", "it ran on worker-7, see TIDEGATE_SPOOL_DIR there"),
        ("worker-7", "killed", "it ran on worker-7, see TIDEGATE_SPOOL_DIR there; it has ended: killed"),
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
    )

    assert location(attempt) == text
