"""What a user asks for, applied in this process: one transaction, the same as a daemon's. Slow to import."""

from datetime import UTC, datetime

from tidegate.daemon import wake
from tidegate.daemon.database import Database
from tidegate.daemon.engine import Batch, apply
from tidegate.schemas.error import RequestError, UnavailableError
from tidegate.schemas.message import Message, PauseRequested, RunRequested


async def ask(database: Database, body: RunRequested | PauseRequested) -> None:
    """Apply it and wake the daemons. Raises RequestError when it is turned down."""
    applied = await apply(database, Batch(messages=[Message(body=body, at=datetime.now(UTC))]))
    if applied.rejected:
        raise RequestError(applied.rejected[0].message)
    if not applied.work:
        return
    try:
        await wake.notify(database, applied.work)
    except UnavailableError:
        # It is done, and the daemons also look by themselves.
        return
