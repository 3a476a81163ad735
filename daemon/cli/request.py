"""What a user asks for, applied in this process: one transaction, the same as a daemon's. Slow to import."""

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


async def ask(database: Database, body: Request) -> None:
    """Apply it and wake the daemons. Raises RequestError when it is turned down."""
    applied = await apply(database, Batch(messages=[Message(body=body, at=datetime.now(UTC))]))
    if applied.rejected:
        raise RequestError(applied.rejected[0].message)
    if applied.work:
        await wake_daemons(database, applied.work)


async def wake_daemons(database: Database, work: Work) -> None:
    """Tell them what there is to do. It is done already, and they also look by themselves: a failure does not matter."""
    with suppress(UnavailableError):
        await wake.notify(database, work)
