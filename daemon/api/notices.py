"""Deadlines of runs and tasks, and notifications about them."""

from typing import Annotated

from msgspec import Meta

from tidegate.daemon.gateway.cursor import Page
from tidegate.daemon.gateway.endpoint import Call, Read
from tidegate.daemon.gateway.lists import ListedOfDag, newest_first
from tidegate.daemon.permissions import Right
from tidegate.daemon.read_model.lookup import list_of_dag
from tidegate.schemas.queries import deadlines, notifications
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.deadlines import DeadlineRow
from tidegate.schemas.queries.notifications import NotificationRow

DEADLINES, NOTIFICATIONS = newest_first("deadlines"), newest_first("notifications")


class DeadlineList(ListedOfDag, frozen=True):
    """The deadlines of all DAGs, or some of them."""

    missed: Annotated[bool, Meta(description="Only missed ones.")] = False


class NotificationList(ListedOfDag, frozen=True):
    """The notifications of all DAGs, or some of them."""

    failed: Annotated[bool, Meta(description="Only notifications that failed for good.")] = False


async def list_deadlines(db: Db, call: Call[DeadlineList]) -> Page[DeadlineRow]:
    """List deadlines of runs and tasks, newest runs first."""
    params = call.params
    page = {"before": DEADLINES.first(params), "limit": params.limit + 1}
    rows = await list_of_dag(db, deadlines.list_deadlines, params.dag_id, missed=params.missed, **page)
    return DEADLINES.page(rows, params)


async def list_notifications(db: Db, call: Call[NotificationList]) -> Page[NotificationRow]:
    """List notifications, newest first."""
    params = call.params
    page = {"before": NOTIFICATIONS.first(params), "limit": params.limit + 1}
    rows = await list_of_dag(db, notifications.list_notifications, params.dag_id, failed=params.failed, **page)
    return NOTIFICATIONS.page(rows, params)


ENDPOINTS = (
    Read("/deadlines", Right.VIEW, list_deadlines, DeadlineList, Page[DeadlineRow]),
    Read("/notifications", Right.VIEW, list_notifications, NotificationList, Page[NotificationRow]),
)
