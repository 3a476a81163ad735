"""The notifications: sent, failed, and to be tried again."""

from collections.abc import Sequence

import msgspec

from tidegate.daemon.api.notices import NotificationList, list_notifications
from tidegate.daemon.duties.receivers.delivery import stored_label
from tidegate.daemon.gateway.endpoint import Call, Read
from tidegate.daemon.permissions import Right
from tidegate.daemon.web.screen import Screen
from tidegate.schemas.notice import instance_name
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.notifications import NotificationRow


class NotificationLine(msgspec.Struct, frozen=True):
    """A notification. `to` is its receiver without secrets, `on` what it is about, `task` empty for a run or a DAG."""

    row: NotificationRow
    to: str
    on: str
    task: str


class NotificationScreen(msgspec.Struct, frozen=True):
    """A part of the list."""

    lines: Sequence[NotificationLine]
    next_cursor: str | None


async def read(db: Db, call: Call[NotificationList]) -> NotificationScreen:
    page = await list_notifications(db, call)
    return NotificationScreen([line(row) for row in page.items], page.next_cursor)


def line(row: NotificationRow) -> NotificationLine:
    task_id = row.context.get("task_id")
    task = instance_name(task_id, row.context.get("map_index")) if task_id else ""
    return NotificationLine(row, stored_label(row.receiver), str(row.context.get("on", "")), task)


SCREEN = Screen(Read("/notifications", Right.VIEW, read, NotificationList, NotificationScreen), "notifications.html")
