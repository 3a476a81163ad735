"""Notifications: written with the event that they are about, claimed, and recorded with their outcome."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import msgspec

from tidegate.schemas.error import described
from tidegate.schemas.notice import CallbackContext
from tidegate.schemas.queries.db import Db
from tidegate.schemas.queries.sql import load
from tidegate.schemas.receiver import Receiver
from tidegate.schemas.state import listing

if TYPE_CHECKING:
    from asyncpg import Record

_SQL = load("notifications")


class ClaimedNotification(msgspec.Struct, frozen=True):
    """A notification that this daemon sends, about a run or a version of a DAG.

    `tries` includes the current try; `delivery_id` is the same at every try. Each receiver has a `receiver_key` of its own; the
    functions of two DAGs are two receivers, even if they have the same name.
    """

    id: int
    delivery_id: UUID
    dag_run_id: int | None
    version_id: int | None
    receiver_key: int
    receiver: Receiver
    context: CallbackContext
    tries: int


class Unreadable(msgspec.Struct, frozen=True):
    """A claimed notification whose receiver or context this version cannot read, and why."""

    id: int
    tries: int
    reason: str


AnyClaim = ClaimedNotification | Unreadable


class NotificationRow(msgspec.Struct, frozen=True):
    """A line of the list of notifications. `reason`: why the last try failed; `due_at`: when a daemon may claim it again."""

    id: int
    dag_id: str
    run_id: str | None
    context: dict[str, Any]
    receiver: dict[str, Any]
    state: Annotated[str, listing(("pending", "sending", "sent", "failed"))]
    tries: int
    reason: str
    created_at: datetime
    due_at: datetime
    ended_at: datetime | None
    delivery_id: UUID
    host: str | None


async def claim(
    db: Db,
    free: Mapping[str, int],
    owner: UUID,
    host: str,
    *,
    for_s: float,
    margin_s: float,
    silent_s: float,
    in_hand: Collection[int] = (),
    busy: Collection[int] = (),
) -> list[AnyClaim]:
    """Claim due notifications, up to `free` of each kind. A claim excludes other daemons for `for_s`.

    A daemon whose claim has ended may know the result, and may have had no Postgres to record it: its notifications are taken
    over first, and claimed unless a result is recorded within `margin_s`. A function of a host that has been silent for
    `silent_s` is claimed, too. Notifications `in_hand`, and those for `busy` receivers, given by their keys, are not.
    """
    rows: list[Record] = []
    while not rows and (due := await _due(db, free, host, silent_s, in_hand, busy)):
        if unknown := [id_ for id_, sender in due if sender not in {None, owner}]:
            await db.execute(_SQL["take_over"], unknown, owner, host, db.now, margin_s)
        if ids := [id_ for id_, sender in due if sender in {None, owner}]:
            rows = await db.fetch(_SQL["claim"], ids, owner, host, db.now, for_s)
    return [_claimed(*row) for row in rows]


async def _due(
    db: Db, free: Mapping[str, int], host: str, silent_s: float, in_hand: Collection[int], busy: Collection[int]
) -> "list[Record]":
    of = (list(free), list(free.values()), host, db.now, silent_s, list(in_hand))
    return await (db.fetch(_SQL["due_of_others"], *of, list(busy)) if busy else db.fetch(_SQL["due"], *of))


async def record_sent(db: Db, id_: int, note: str) -> None:
    """Mark the notification as sent; no daemon sends it again."""
    await db.execute(_SQL["record_sent"], id_, note)


async def record_retry(db: Db, claimed: AnyClaim, owner: UUID, reason: str, pause_s: float) -> None:
    """Record a failed try; another try follows after `pause_s`. No effect after another daemon's claim."""
    await _conclude(db, claimed, owner, "pending", reason, pause_s)


async def extend_claim(db: Db, claimed: AnyClaim, owner: UUID, pause_s: float) -> None:
    """Extend the claim by `pause_s`, because the try is still in progress."""
    await _conclude(db, claimed, owner, "sending", "", pause_s)


async def record_failure(db: Db, claimed: AnyClaim, owner: UUID, reason: str) -> None:
    """Mark the notification as failed; no try follows."""
    await _conclude(db, claimed, owner, "failed", reason, 0)


async def list_notifications(
    db: Db,
    *,
    dag_id: str | None = None,
    run_id: str | None = None,
    failed: bool = False,
    id_: int | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[NotificationRow]:
    """The notifications, newest first; those before one."""
    rows = await db.fetch(_SQL["list_notifications"], dag_id, run_id, failed, id_, limit, before)
    return [NotificationRow(*row) for row in rows]


async def notification(db: Db, id_: int) -> NotificationRow | None:
    """The notification of this id, if it exists."""
    return next(iter(await list_notifications(db, id_=id_, limit=1)), None)


async def _conclude(db: Db, claimed: AnyClaim, owner: UUID, state: str, reason: str, pause_s: float) -> None:
    due_at = db.now + timedelta(seconds=pause_s)
    await db.execute(_SQL["conclude_try"], claimed.id, owner, claimed.tries, state, reason, due_at)


def _claimed(
    id_: int,
    delivery_id: UUID,
    dag_run_id: int | None,
    version_id: int | None,
    receiver_key: int,
    receiver: Any,
    context: Any,
    tries: int,
) -> AnyClaim:
    try:
        told = msgspec.convert({**context, "id": delivery_id}, CallbackContext)
        known = msgspec.convert(receiver, Receiver)
    except (TypeError, msgspec.ValidationError) as error:
        return Unreadable(id_, tries, f"this version cannot read it: {described(error)}")
    return ClaimedNotification(id_, delivery_id, dag_run_id, version_id, receiver_key, known, told, tries)
