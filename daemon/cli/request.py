"""Requests of users, applied in the command's process in one transaction, as a daemon would. Slow to import."""

from contextlib import suppress
from datetime import UTC, datetime

from tidegate.daemon import wake
from tidegate.daemon.engine import Batch, apply
from tidegate.daemon.postgres.database import Database
from tidegate.daemon.work import Work
from tidegate.schemas.error import RequestError, UnavailableError
from tidegate.schemas.message import (
    ClearRequested,
    DagDeleteRequested,
    Message,
    PauseRequested,
    RunEndRequested,
    RunRequested,
    TaskMarked,
)

Request = RunRequested | PauseRequested | DagDeleteRequested | ClearRequested | RunEndRequested | TaskMarked


async def apply_request(database: Database, request: Request) -> None:
    """Apply the request and notify the daemons. Raises RequestError with the reason of a rejection."""
    applied = await apply(database, Batch(messages=[Message(body=request, at=datetime.now(UTC))]))
    if applied.rejected:
        raise RequestError(applied.rejected[0].message)
    if applied.work:
        await notify_daemons(database, applied.work)


async def notify_daemons(database: Database, work: Work) -> None:
    """Tell the daemons about new work. A failure is ignored: the work is committed, and daemons poll for it too."""
    with suppress(UnavailableError):
        await wake.notify(database, work)
