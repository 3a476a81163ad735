"""Rows of lists as cells."""

from datetime import UTC, datetime
from uuid import UUID

from tidegate.daemon.cli.pages.lists import notification_cells
from tidegate.schemas.queries.notifications import NotificationRow

NOW = datetime(2013, 1, 1, tzinfo=UTC)


def test_a_notification_of_another_version_is_shown_without_what_cannot_be_read() -> None:
    row = NotificationRow(
        id=1,
        dag_id="d",
        run_id="r",
        context={},
        receiver={"kind": "pager", "number": 4711},
        state="failed",
        tries=1,
        reason="it cannot be read",
        created_at=NOW,
        due_at=NOW,
        ended_at=NOW,
        delivery_id=UUID(int=1),
        host=None,
    )

    cells = notification_cells(row, NOW)

    assert cells == (None, None, "a receiver that this version cannot read", "failed", 1, "0s", "it cannot be read")
