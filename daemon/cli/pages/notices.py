"""Deadlines and notifications as lines of tables."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from tidegate.daemon.cli.pages import output
from tidegate.schemas.queries.deadlines import DeadlineRow
from tidegate.schemas.queries.notifications import NotificationRow
from tidegate.schemas.receiver import Receiver
from tidegate.schemas.timetable.text import age, utc

DEADLINE_TITLES = ("TASK", "DEADLINE", "STATE", "DUE", "MET", "MISSED")
NOTIFICATION_TITLES = ("TASK", "ON", "TO", "STATE", "TRIES", "AGE", "REASON")


def print_notices(deadlines: Sequence[DeadlineRow], notifications: Sequence[NotificationRow], now: datetime) -> None:
    """As sections of a run's page, oldest first; empty ones are left out."""
    if deadlines:
        output.section("deadlines", DEADLINE_TITLES, map(deadline_cells, reversed(deadlines)), empty="none")
    if notifications:
        rows = ((row.id, *notification_cells(row, now)) for row in reversed(notifications))
        output.section("notifications", ("ID", *NOTIFICATION_TITLES), rows, empty="none")


def deadline_cells(row: DeadlineRow) -> tuple[output.Cell, ...]:
    return row.task_id, row.name, row.state, row.due_at, row.met_at, row.missed_at


def notification_cells(row: NotificationRow, now: datetime) -> tuple[output.Cell, ...]:
    from tidegate.daemon.duties.receivers.delivery import label

    receiver = label(msgspec.convert(row.receiver, Receiver))
    reason = f"next try at {utc(row.due_at)}; {row.reason}" if row.state == "pending" and row.tries else row.reason
    return row.context["task_id"], row.context["on"], receiver, row.state, row.tries, age(row.created_at, now), reason
